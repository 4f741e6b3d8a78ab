// Rows of the longest branch: `vestige` without its low-pass.

#include <cmath>

#include "base/load_number.h"
#include "cache/policies/settings.h"

namespace vestige {

namespace {

class BranchNormPolicy final : public ConfiguredPolicy {
 public:
  using ConfiguredPolicy::ConfiguredPolicy;
  Status score_block(const ConstTensorView&, const ConstTensorView& branch, int64_t, const TensorView& score,
                     Stream&) const override {
    for (int64_t u = 0; u < branch.dim(0); ++u) {
      double square = 0;
      for (int64_t k = 0; k < branch.dim(1); ++k) {
        const auto x = static_cast<double>(load_number(branch.data, branch.dtype, u * branch.stride[0] + k));
        square += x * x;
      }
      score.as<float>()[u] = static_cast<float>(std::sqrt(square));
    }
    return {};
  }
};

}  // namespace

PolicyInfo branch_norm_info() {
  return {"branch_norm", "keeps the rows of longest branch; others are never attended again", "baseline", {}};
}

Result<std::shared_ptr<const CachePolicy>> create_branch_norm(const PolicyConfig& config, const RowLayout& layout) {
  if (layout.d_branch < 1) {
    return unsupported("policy branch_norm scores rows by their branch; this layout has d_branch = %d",
                       layout.d_branch);
  }
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, branch_norm_info()));
  return std::shared_ptr<const CachePolicy>(std::make_shared<BranchNormPolicy>(std::move(complete)));
}

}  // namespace vestige
