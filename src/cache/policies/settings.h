#pragma once

// Checks of a PolicyConfig, shared by all policies.

#include <cmath>

#include "vestige/policy.h"

namespace vestige {

/// `config` with the defaults of all settings it does not name.
/// @return InvalidArgument naming field, value and range
Result<PolicyConfig> complete_config(const PolicyConfig& config, const PolicyInfo& info);

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

/// One that scores rows by position, which float32 counts exactly up to 2^24 rows: the most recent ones are kept.
class PositionalPolicy : public ConfiguredPolicy {
 public:
  using ConfiguredPolicy::ConfiguredPolicy;
  Status score_block(const ConstTensorView&, const ConstTensorView&, int64_t first_position, const TensorView& score,
                     Stream&) const final {
    for (int64_t i = 0; i < score.dim(0); ++i) score.as<float>()[i] = static_cast<float>(first_position + i);
    return {};
  }
  bool scores_by_position() const final { return true; }
};

}  // namespace vestige
