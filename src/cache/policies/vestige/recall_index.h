#pragma once

// The archive's index: a sketch and a residual norm for every closed row, and the weight z of the certificate.
// Source: arXiv:2609.03949v1, Eq. 4.

#include <cstdint>
#include <string>
#include <vector>

#include "vestige/policy.h"

namespace vestige {

struct RecallSettings {
  int32_t sketch_rank = 64;   ///< r, cut to d_content
  int32_t n_calibrate = 256;  ///< tokens
  int32_t max_recall = 4096;  ///< rows
  double tau = 0.90;
  float z_max = 8.0f;
};

/// Until fit() the index is empty, and recall() builds a provisional one: the first r content channels as the
/// basis and z = z_max.
class SketchIndex final : public RecallIndex {
 public:
  SketchIndex(const RowLayout& layout, int32_t block_rows, const RecallSettings& settings);

  Status fit(const RecallFit& fit, Stream& stream) override;
  Status extend(const RowPages& rows, int64_t n_closed, Stream& stream) override;
  Status recall(const RecallStep& step, Stream& stream) override;
  int64_t max_recall() const override { return settings_.max_recall; }
  int64_t size_bytes() const override;
  int64_t scan_bytes(int64_t n_closed) const override;
  Status save(const std::string& prefix, TensorSink& sink) const override;
  Status load(const std::string& prefix, const TensorSource& source, int64_t n_closed) override;

 private:
  /// The parts of a fitted index, built aside and moved in when whole.
  struct State {
    Buffer basis;                               // [r, d_content] f32
    std::vector<const void*> sketch, residual;  // page tables, one entry a block
    std::vector<Buffer> owned;
    int64_t n_indexed = 0;
    bool ready = false;  // there is a basis
  };
  TensorView basis_view(const State& state) const;
  Status add_rows(const RowPages& rows, int64_t n_closed, State* state, Stream& stream) const;
  Status build_provisional(const RowPages& rows, int64_t n_closed, Stream& stream);
  Result<float> calibrate(const RecallFit& fit, const State& state, Stream& stream) const;

  RowLayout layout_;
  int64_t block_rows_;
  RecallSettings settings_;
  int32_t rank_;
  State state_;
  float z_;
};

}  // namespace vestige
