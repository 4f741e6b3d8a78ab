// The salience of `vestige` on the whole row instead of the branch: what the branch is worth as a selector.
// Source: arXiv:2609.03949v1, Table 3 (full-row selector), Eq. 3.

#include <cmath>

#include "cache/policies/settings.h"

namespace vestige {

namespace {

class FullRowPolicy final : public ConfiguredPolicy {
 public:
  FullRowPolicy(PolicyConfig config, int32_t bandwidth) : ConfiguredPolicy(std::move(config)), bandwidth_(bandwidth) {}

  /// Columns are filtered one by one, so the row's residual has the two parts' as its sides.
  Status score_block(const ConstTensorView& content, const ConstTensorView& branch, int64_t, const TensorView& score,
                     Stream& stream) const override {
    VESTIGE_TRY(ops::score_rows({.branch = content, .score = score, .bandwidth = bandwidth_}, stream));
    if (branch.empty()) return {};
    VESTIGE_ASSIGN(Buffer buffer, Buffer::create(static_cast<size_t>(score.dim(0)) * sizeof(float)));
    const TensorView side(buffer.data(), DType::kF32, {score.dim(0)});
    VESTIGE_TRY(ops::score_rows({.branch = branch, .score = side, .bandwidth = bandwidth_}, stream));
    VESTIGE_TRY(stream.synchronize());
    for (int64_t u = 0; u < score.dim(0); ++u) {
      const float a = score.as<float>()[u], b = side.as<float>()[u];
      score.as<float>()[u] = std::sqrt(a * a + b * b);
    }
    return {};
  }

 private:
  int32_t bandwidth_;
};

}  // namespace

PolicyInfo full_row_info() {
  return {"full_row",
          "keeps the rows that leave their low-pass, content and branch together; no recall",
          "VestigeKV, arXiv:2609.03949v1, Eq. 3 on the whole row (Table 3)",
          {{"bandwidth", 16, 1, 4096, "rFFT bins of a block that count as low-pass, at most block_rows / 2"}}};
}

Result<std::shared_ptr<const CachePolicy>> create_full_row(const PolicyConfig& config, const RowLayout&) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, full_row_info()));
  VESTIGE_ASSIGN(const int32_t bandwidth, whole_setting(complete, "bandwidth"));
  if (bandwidth > complete.block_rows / 2) {
    return invalid_argument("full_row.bandwidth = %d, want 1 to block_rows / 2 = %d", bandwidth,
                            complete.block_rows / 2);
  }
  return std::shared_ptr<const CachePolicy>(std::make_shared<FullRowPolicy>(std::move(complete), bandwidth));
}

}  // namespace vestige
