#pragma once

// Settings of policies by name, in flags and reports.

#include <optional>
#include <string>

#include "vestige/policy.h"

namespace vestige::tools {

/// PolicyInfo::takes_ratio; true of a name that is not known.
bool takes_ratio(const std::string& policy);
/// Null if there is no such policy or setting. Lives as long as the process.
const PolicySetting* find_setting(const std::string& policy, const std::string& name);
/// A number, or the name of a choice; nullopt if it is neither.
std::optional<double> parse_setting(const PolicySetting& setting, const std::string& text);
/// "proportional, constant", or "1 to 64"
std::string setting_values(const PolicySetting& setting);
/// One line a setting, of every policy.
std::string settings_help();

}  // namespace vestige::tools
