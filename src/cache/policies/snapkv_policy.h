#pragma once

// Rows ranked as SnapKV ranks them, for policies that differ in how many each cache keeps.
// Source: SnapKV, arXiv:2404.14469.

#include <memory>
#include <vector>

#include "cache/policies/observed_policy.h"

namespace vestige {

struct SnapKvSettings {
  int32_t n_window = 32;  ///< last tokens whose queries vote
  int32_t kernel = 7;     ///< rows averaged around each; odd
};

/// The settings `n_window` and `kernel`, and `more`.
std::vector<PolicySetting> snapkv_settings(std::vector<PolicySetting> more = {});
/// @return InvalidArgument if `kernel` is even
Result<SnapKvSettings> read_snapkv_settings(const PolicyConfig& complete);

class SnapKvPolicy : public ObservedPolicy {
 public:
  SnapKvPolicy(PolicyConfig config, const SnapKvSettings& settings)
      : ObservedPolicy(std::move(config), ObservedQueries::kPrompt, settings.n_window), kernel_(settings.kernel) {}
  std::unique_ptr<PromptScorer> create_scorer(const RowLayout& layout, int32_t h_q) const override;

 private:
  int64_t kernel_;
};

}  // namespace vestige
