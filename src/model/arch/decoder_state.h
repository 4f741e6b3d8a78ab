#pragma once

// What one sequence keeps of a model besides cached rows, and the memory its passes work in.

#include <memory>
#include <string>
#include <vector>

#include "model/layers/kda_layer.h"
#include "model/scratch.h"
#include "vestige/model.h"

namespace vestige {

class DecoderState final : public ModelState {
 public:
  /// @param layers  model layer numbers of the KDA layers, for the names of saved tensors.
  static Result<std::unique_ptr<DecoderState>> create(const KdaDims& dims, const std::vector<int32_t>& layers);

  const KdaState& kda(size_t index) const { return kda_[index]; }
  Scratch& prefill_scratch() { return prefill_scratch_; }
  Scratch& decode_scratch() { return decode_scratch_; }

  int64_t size_bytes() const override { return static_cast<int64_t>(memory_.size_bytes()); }
  Status save(const std::string& prefix, TensorSink& sink) const override;
  Status load(const std::string& prefix, const TensorSource& source) override;

 private:
  Buffer memory_;
  std::vector<KdaState> kda_;
  std::vector<int32_t> layers_;
  Scratch prefill_scratch_, decode_scratch_;
};

}  // namespace vestige
