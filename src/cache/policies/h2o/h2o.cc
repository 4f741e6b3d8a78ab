// Heavy hitters: the rows that the document's own queries attended most. Source: H2O, arXiv:2306.14048.

#include "cache/policies/attention_scorer.h"
#include "cache/policies/observed_policy.h"

namespace vestige {

namespace {

class H2oPolicy final : public ObservedPolicy {
 public:
  explicit H2oPolicy(PolicyConfig config) : ObservedPolicy(std::move(config), ObservedQueries::kPrompt, INT64_MAX) {}
  std::unique_ptr<PromptScorer> create_scorer(const RowLayout&, int32_t) const override {
    return std::make_unique<AttentionScorer>(AttentionScorer::Statistic::kMass);
  }
};

}  // namespace

PolicyInfo h2o_info() {
  return {"h2o",
          "keeps the rows that all queries of the document attended most",
          "H2O, arXiv:2306.14048: column sums of causal softmax over heads and queries",
          {}};
}

Result<std::shared_ptr<const CachePolicy>> create_h2o(const PolicyConfig& config, const RowLayout&) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, h2o_info()));
  return std::shared_ptr<const CachePolicy>(std::make_shared<H2oPolicy>(std::move(complete)));
}

}  // namespace vestige
