#pragma once

// The un-absorbed queries of the last tokens read, per attention layer: what the recall index is fitted to.

#include <cstdint>
#include <vector>

#include "vestige/device.h"
#include "vestige/model.h"
#include "vestige/status.h"

namespace vestige {

class QueryRing {
 public:
  /// Queries kept per layer; the paper calibrates on the end of the prompt, and 1024 tokens x 8 heads give the
  /// rank-64 basis 128 samples a dimension. The setting n_calibrate goes no higher than this.
  static constexpr int64_t kTokens = 1024;

  /// Puts the queries [t, h_q, d] f32 of tokens [position, position + t) into the ring.
  Status add(const ConstTensorView& queries, int64_t position);
  int64_t size() const { return n_total_ < kTokens ? n_total_ : kTokens; }
  /// The ring in position order, absorbed: [size(), h_q, d_row] f32 in `out`.
  Status absorb(const Model& model, size_t cache_index, const TensorView& out, Stream& stream) const;

 private:
  std::vector<float> values_;  ///< [kTokens, h_q, d]; the token at position p lies at p % kTokens
  int64_t h_q_ = 0, d_ = 0;
  int64_t n_total_ = 0;  ///< tokens seen
};

}  // namespace vestige
