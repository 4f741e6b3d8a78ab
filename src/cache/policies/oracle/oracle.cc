// The rows that given future queries attend: a ceiling for any fixed selection, for evaluation only.

#include "cache/policies/attention_scorer.h"
#include "cache/policies/observed_policy.h"

namespace vestige {

namespace {

class OraclePolicy final : public ObservedPolicy {
 public:
  explicit OraclePolicy(PolicyConfig config) : ObservedPolicy(std::move(config), ObservedQueries::kGiven, INT64_MAX) {}
  std::unique_ptr<PromptScorer> create_scorer(const RowLayout&, int32_t) const override {
    return std::make_unique<AttentionScorer>(AttentionScorer::Statistic::kMass);
  }
};

}  // namespace

PolicyInfo oracle_info() {
  return {"oracle",
          "evaluation only: keeps the rows that the future queries handed to it attend most",
          "baseline: sums of softmax weights of given queries",
          {}};
}

Result<std::shared_ptr<const CachePolicy>> create_oracle(const PolicyConfig& config, const RowLayout&) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, oracle_info()));
  return std::shared_ptr<const CachePolicy>(std::make_shared<OraclePolicy>(std::move(complete)));
}

}  // namespace vestige
