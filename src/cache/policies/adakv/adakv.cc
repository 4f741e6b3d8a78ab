// SnapKV's scores, but heads of a layer share one budget. Source: Ada-KV, arXiv:2407.11550.

#include "cache/policies/adakv/head_budget.h"
#include "cache/policies/snapkv_policy.h"

namespace vestige {

namespace {

class AdaKvPolicy final : public SnapKvPolicy {
 public:
  using SnapKvPolicy::SnapKvPolicy;
  std::unique_ptr<KeepBudget> create_keep_budget() const override {
    return std::make_unique<adakv::HeadBudget>(config().settings.at("safeguard"));
  }
};

}  // namespace

PolicyInfo adakv_info() {
  return {"adakv", "keeps rows as snapkv ranks them, in one ranking over the key-value heads of a layer",
          "Ada-KV, arXiv:2407.11550, Algorithm 1",
          snapkv_settings({{"safeguard", 0.2, 0, 1, "share of an even budget that each head is sure of"}})};
}

Result<std::shared_ptr<const CachePolicy>> create_adakv(const PolicyConfig& config, const RowLayout& layout) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, adakv_info()));
  VESTIGE_ASSIGN(const SnapKvSettings settings, read_snapkv_settings(complete));
  if (layout.scored_content) {
    return unsupported("policy adakv spreads rows over key-value heads; latent rows serve all heads: take snapkv");
  }
  return std::shared_ptr<const CachePolicy>(std::make_shared<AdaKvPolicy>(std::move(complete), settings));
}

}  // namespace vestige
