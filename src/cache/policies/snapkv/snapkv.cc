// The rows that the document's last queries attend, smoothed along the sequence. Source: SnapKV, arXiv:2404.14469.

#include <algorithm>

#include "cache/policies/attention_scorer.h"
#include "cache/policies/observed_policy.h"

namespace vestige {

namespace {

/// Average over `kernel` neighbours; those outside the sequence count as 0.
void average_pool(int64_t kernel, std::vector<float>* scores) {
  const auto n = static_cast<int64_t>(scores->size());
  const std::vector<float> raw = *scores;
  for (int64_t u = 0; u < n; ++u) {
    double sum = 0;
    for (int64_t v = std::max<int64_t>(0, u - kernel / 2); v <= std::min(n - 1, u + kernel / 2); ++v) {
      sum += static_cast<double>(raw[static_cast<size_t>(v)]);
    }
    (*scores)[static_cast<size_t>(u)] = static_cast<float>(sum / static_cast<double>(kernel));
  }
}

class SnapKvPolicy final : public ObservedPolicy {
 public:
  SnapKvPolicy(PolicyConfig config, int32_t n_window, int32_t kernel)
      : ObservedPolicy(std::move(config), ObservedQueries::kPrompt, n_window), kernel_(kernel) {}
  std::unique_ptr<PromptScorer> create_scorer(const RowLayout&, int32_t) const override {
    return std::make_unique<AttentionScorer>(
        AttentionScorer::Statistic::kMass,
        [kernel = kernel_](int64_t, std::vector<float>* scores) { average_pool(kernel, scores); });
  }

 private:
  int64_t kernel_;
};

}  // namespace

PolicyInfo snapkv_info() {
  return {"snapkv",
          "keeps the rows that the document's last queries attend, with their neighbours",
          "SnapKV, arXiv:2404.14469: column sums of the last queries' softmax, average pooled",
          {
              {"n_window", 32, 1, 1024, "last tokens whose queries vote"},
              {"kernel", 7, 1, 127, "rows averaged around each; odd"},
          }};
}

Result<std::shared_ptr<const CachePolicy>> create_snapkv(const PolicyConfig& config, const RowLayout&) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, snapkv_info()));
  VESTIGE_ASSIGN(const int32_t n_window, whole_setting(complete, "n_window"));
  VESTIGE_ASSIGN(const int32_t kernel, whole_setting(complete, "kernel"));
  if (kernel % 2 == 0) return invalid_argument("snapkv.kernel = %d, want an odd number", kernel);
  return std::shared_ptr<const CachePolicy>(std::make_shared<SnapKvPolicy>(std::move(complete), n_window, kernel));
}

}  // namespace vestige
