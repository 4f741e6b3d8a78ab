// Half of the budget for the most recent rows, half for heavy hitters. Source: H2O, arXiv:2306.14048.

#include <algorithm>

#include "cache/policies/attention_scorer.h"
#include "cache/policies/observed_policy.h"

namespace vestige {

namespace {

class H2oRecentPolicy final : public ObservedPolicy {
 public:
  explicit H2oRecentPolicy(PolicyConfig config)
      : ObservedPolicy(std::move(config), ObservedQueries::kPrompt, INT64_MAX) {}
  std::unique_ptr<PromptScorer> create_scorer(const RowLayout&, int32_t) const override {
    // The cache that owns the scorer holds the policy.
    return std::make_unique<AttentionScorer>(
        AttentionScorer::Statistic::kMass, [this](int64_t n_closed, std::vector<float>* scores) {
          const auto n_seen = static_cast<int64_t>(scores->size());
          const float most = n_seen == 0 ? 0.0f : *std::max_element(scores->begin(), scores->end());
          // Above every heavy hitter.
          for (int64_t u = n_closed - n_keep(n_closed) / 2; u < std::min(n_closed, n_seen); ++u) {
            (*scores)[static_cast<size_t>(u)] += 2 * most + 1;
          }
        });
  }
};

}  // namespace

PolicyInfo h2o_recent_info() {
  return {"h2o_recent",
          "half the kept rows are the most recent, half those that all queries of the document attended most",
          "H2O, arXiv:2306.14048, with a local window",
          {}};
}

Result<std::shared_ptr<const CachePolicy>> create_h2o_recent(const PolicyConfig& config, const RowLayout&) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, h2o_recent_info()));
  return std::shared_ptr<const CachePolicy>(std::make_shared<H2oRecentPolicy>(std::move(complete)));
}

}  // namespace vestige
