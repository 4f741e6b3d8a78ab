#pragma once

// Checks of a PolicyConfig, shared by all policies.

#include <cmath>

#include "vestige/policy.h"

namespace vestige {

/// `config` with the defaults of all settings it does not name.
/// @return InvalidArgument naming field, value and range
Result<PolicyConfig> complete_config(const PolicyConfig& config, const PolicyInfo& info);

/// Scores a block by position, which float32 counts exactly up to 2^24 rows: the most recent rows are kept.
inline Status score_by_position(int64_t first_position, const TensorView& score) {
  for (int64_t i = 0; i < score.dim(0); ++i) score.as<float>()[i] = static_cast<float>(first_position + i);
  return {};
}

/// A setting that counts something. @return InvalidArgument if it is not a whole number
Result<int32_t> whole_setting(const PolicyConfig& config, const char* name);

/// A setting whose values have names; the first is the default.
inline PolicySetting choice(const char* name, std::vector<const char*> names, const char* sentence) {
  const auto last = static_cast<double>(names.size() - 1);
  return {name, 0, 0, last, sentence, std::move(names)};
}

/// What every policy without an own state is: a checked config.
class ConfiguredPolicy : public CachePolicy {
 public:
  explicit ConfiguredPolicy(PolicyConfig config) : config_(std::move(config)) {}
  const PolicyConfig& config() const override { return config_; }

 private:
  PolicyConfig config_;
};

}  // namespace vestige
