// The rows that the document's last query attends. Source: TOVA, arXiv:2401.06104, applied once at the document's end.

#include "cache/policies/attention_scorer.h"
#include "cache/policies/observed_policy.h"

namespace vestige {

namespace {

class TovaPolicy final : public ObservedPolicy {
 public:
  explicit TovaPolicy(PolicyConfig config) : ObservedPolicy(std::move(config), ObservedQueries::kPrompt, 1) {}
  /// The sum over heads orders rows as their mean does.
  std::unique_ptr<PromptScorer> create_scorer(const RowLayout&, int32_t) const override {
    return std::make_unique<AttentionScorer>(AttentionScorer::Statistic::kMass);
  }
};

}  // namespace

PolicyInfo tova_info() {
  return {"tova",
          "keeps the rows that the document's last query attends most",
          "TOVA, arXiv:2401.06104: weights of the last query, mean over heads, applied once",
          {}};
}

Result<std::shared_ptr<const CachePolicy>> create_tova(const PolicyConfig& config, const RowLayout&) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, tova_info()));
  return std::shared_ptr<const CachePolicy>(std::make_shared<TovaPolicy>(std::move(complete)));
}

}  // namespace vestige
