// SnapKV's scores, with more rows in the first layers than in the last. Source: PyramidKV, arXiv:2406.02069.

#include "cache/policies/pyramidkv/layer_budget.h"
#include "cache/policies/snapkv_policy.h"

namespace vestige {

namespace {

class PyramidKvPolicy final : public SnapKvPolicy {
 public:
  using SnapKvPolicy::SnapKvPolicy;
  std::unique_ptr<KeepBudget> create_keep_budget() const override {
    return std::make_unique<pyramidkv::LayerBudget>(config().settings.at("beta"));
  }
  bool fits_layers_together() const override { return true; }
};

}  // namespace

PolicyInfo pyramidkv_info() {
  return {"pyramidkv", "keeps rows as snapkv ranks them, fewer from layer to layer",
          "PyramidKV, arXiv:2406.02069, Section 4.2",
          snapkv_settings({{"beta", 20, 1, 1000, "the last layer keeps this part of the mean"}})};
}

Result<std::shared_ptr<const CachePolicy>> create_pyramidkv(const PolicyConfig& config, const RowLayout&) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, pyramidkv_info()));
  VESTIGE_ASSIGN(const SnapKvSettings settings, read_snapkv_settings(complete));
  return std::shared_ptr<const CachePolicy>(std::make_shared<PyramidKvPolicy>(std::move(complete), settings));
}

}  // namespace vestige
