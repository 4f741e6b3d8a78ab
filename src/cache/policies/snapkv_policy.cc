#include "cache/policies/snapkv_policy.h"

#include <algorithm>

#include "cache/policies/attention_scorer.h"

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

}  // namespace

std::vector<PolicySetting> snapkv_settings(std::vector<PolicySetting> more) {
  more.push_back({"n_window", 32, 1, 1024, "last tokens whose queries vote"});
  more.push_back({"kernel", 7, 1, 127, "rows averaged around each; odd"});
  return more;
}

Result<SnapKvSettings> read_snapkv_settings(const PolicyConfig& complete) {
  SnapKvSettings settings;
  VESTIGE_ASSIGN(settings.n_window, whole_setting(complete, "n_window"));
  VESTIGE_ASSIGN(settings.kernel, whole_setting(complete, "kernel"));
  if (settings.kernel % 2 == 1) return settings;
  return invalid_argument("%s.kernel = %d, want an odd number", complete.name.c_str(), settings.kernel);
}

std::unique_ptr<PromptScorer> SnapKvPolicy::create_scorer(const RowLayout&, int32_t) const {
  return std::make_unique<AttentionScorer>(
      AttentionScorer::Statistic::kMass,
      [kernel = kernel_](int64_t, std::vector<float>* scores) { average_pool(kernel, scores); });
}

}  // namespace vestige
