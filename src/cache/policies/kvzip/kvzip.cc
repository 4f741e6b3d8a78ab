// The rows that the model attends when it repeats the document. Source: KVzip, arXiv:2505.23416.

#include "cache/policies/attention_scorer.h"
#include "cache/policies/observed_policy.h"

namespace vestige {

namespace {

class KvzipPolicy final : public ObservedPolicy {
 public:
  explicit KvzipPolicy(PolicyConfig config) : ObservedPolicy(std::move(config), ObservedQueries::kRepeat, INT64_MAX) {}
  std::unique_ptr<PromptScorer> create_scorer(const RowLayout&, int32_t) const override {
    return std::make_unique<AttentionScorer>(AttentionScorer::Statistic::kPeak);
  }
};

}  // namespace

PolicyInfo kvzip_info() {
  return {"kvzip",
          "keeps the rows with the largest weight from any query and head of a pass that repeats the document",
          "KVzip, arXiv:2505.23416; the budget is per layer here, one threshold over all layers there",
          {}};
}

Result<std::shared_ptr<const CachePolicy>> create_kvzip(const PolicyConfig& config, const RowLayout&) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, kvzip_info()));
  return std::shared_ptr<const CachePolicy>(std::make_shared<KvzipPolicy>(std::move(complete)));
}

}  // namespace vestige
