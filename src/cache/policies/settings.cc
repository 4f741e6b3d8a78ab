#include "cache/policies/settings.h"

#include <algorithm>
#include <cmath>

namespace vestige {

namespace {

Status check_setting(const PolicyInfo& info, const std::string& name, double value) {
  const auto setting =
      std::find_if(info.settings.begin(), info.settings.end(), [&](const PolicySetting& s) { return name == s.name; });
  if (setting == info.settings.end()) {
    std::string known;
    for (const PolicySetting& s : info.settings) known += (known.empty() ? "" : ", ") + std::string(s.name);
    return invalid_argument("policy %s has no setting \"%s\", want one of: %s", info.name, name.c_str(),
                            known.empty() ? "(none)" : known.c_str());
  }
  if (!(value >= setting->min && value <= setting->max)) {
    return invalid_argument("%s.%s = %g, want %g to %g", info.name, name.c_str(), value, setting->min, setting->max);
  }
  return {};
}

}  // namespace

Result<PolicyConfig> complete_config(const PolicyConfig& config, const PolicyInfo& info) {
  constexpr int32_t kMinBlock = 64, kMaxBlock = 1 << 20;
  if (config.block_rows < kMinBlock || config.block_rows > kMaxBlock) {
    return invalid_argument("block_rows = %d, want %d to %d", config.block_rows, kMinBlock, kMaxBlock);
  }
  if (!(config.ratio >= 1) || !std::isfinite(config.ratio)) {
    return invalid_argument("ratio = %g, want at least 1", config.ratio);
  }
  if (config.n_sinks < 0 || config.n_sinks > config.block_rows) {
    return invalid_argument("n_sinks = %d, want 0 to block_rows = %d", config.n_sinks, config.block_rows);
  }
  for (const auto& [name, value] : config.settings) VESTIGE_TRY(check_setting(info, name, value));
  PolicyConfig complete = config;
  for (const PolicySetting& s : info.settings) complete.settings.try_emplace(s.name, s.default_value);
  return complete;
}

Result<int32_t> whole_setting(const PolicyConfig& config, const char* name) {
  const double value = config.settings.at(name);
  if (value != std::floor(value)) {
    return invalid_argument("%s.%s = %g, want a whole number", config.name.c_str(), name, value);
  }
  return static_cast<int32_t>(value);
}

}  // namespace vestige
