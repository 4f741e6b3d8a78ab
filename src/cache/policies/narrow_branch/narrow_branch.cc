// The salience of VestigeKV seen through fewer directions of the branch: each block's rows are projected on the block's
// own first principal directions before the low-pass. No recall. An ablation: arXiv:2609.03949v1, Table 5.

#include "base/half.h"
#include "cache/policies/settings.h"

namespace vestige {

namespace {

struct NarrowSettings {
  int32_t width = 0, bandwidth = 0;
};

class NarrowBranchPolicy final : public ConfiguredPolicy {
 public:
  NarrowBranchPolicy(PolicyConfig config, const NarrowSettings& settings)
      : ConfiguredPolicy(std::move(config)), settings_(settings) {}

  Status score_block(const ConstTensorView&, const ConstTensorView& branch, int64_t, const TensorView& score,
                     Stream& stream) const override {
    const int64_t n = branch.dim(0), d = branch.dim(1), k = std::min<int64_t>(settings_.width, d);
    VESTIGE_ASSIGN(const Buffer memory, Buffer::create(static_cast<size_t>(n * d + k * d + n * k) * sizeof(float)));
    auto* const values = reinterpret_cast<float*>(memory.data());
    const TensorView rows(values, DType::kF32, {n, d}), basis(values + n * d, DType::kF32, {k, d});
    const TensorView narrow(values + n * d + k * d, DType::kF32, {n, k});
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < d; ++j) {
        const int64_t at = i * branch.stride[0] + j;
        values[i * d + j] =
            branch.dtype == DType::kF32 ? branch.as<float>()[at] : bf16_to_f32(branch.as<uint16_t>()[at]);
      }
    }
    VESTIGE_TRY(ops::fit_basis({.x = rows, .basis = basis}, stream));
    VESTIGE_TRY(ops::matmul({.x = rows, .w = basis, .out = narrow}, stream));
    return ops::score_rows({.branch = narrow, .score = score, .bandwidth = settings_.bandwidth}, stream);
  }

 private:
  NarrowSettings settings_;
};

}  // namespace

PolicyInfo narrow_branch_info() {
  return {"narrow_branch",
          "keeps rows as vestige does, by the branch's first principal directions alone; no recall",
          "VestigeKV, arXiv:2609.03949v1, Table 5",
          {
              {"width", 64, 1, 4096, "principal directions of the block's branch; at most d_branch are used"},
              {"bandwidth", 16, 1, 4096, "rFFT bins of a block that count as low-pass, at most block_rows / 2"},
          }};
}

Result<std::shared_ptr<const CachePolicy>> create_narrow_branch(const PolicyConfig& config, const RowLayout& layout) {
  if (layout.d_branch < 1) {
    return unsupported("policy narrow_branch scores rows by their branch; this layout has d_branch = %d",
                       layout.d_branch);
  }
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, narrow_branch_info()));
  NarrowSettings settings;
  VESTIGE_ASSIGN(settings.width, whole_setting(complete, "width"));
  VESTIGE_ASSIGN(settings.bandwidth, whole_setting(complete, "bandwidth"));
  if (settings.bandwidth > complete.block_rows / 2) {
    return invalid_argument("narrow_branch.bandwidth = %d, want 1 to block_rows / 2 = %d", settings.bandwidth,
                            complete.block_rows / 2);
  }
  return std::shared_ptr<const CachePolicy>(std::make_shared<NarrowBranchPolicy>(std::move(complete), settings));
}

}  // namespace vestige
