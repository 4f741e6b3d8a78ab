#include "tools/settings.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace vestige::tools {

namespace {

const std::vector<PolicyInfo>& infos() {
  static const std::vector<PolicyInfo> all = policy_infos();
  return all;
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

}  // namespace

bool takes_ratio(const std::string& policy) {
  const auto info = std::find_if(infos().begin(), infos().end(), [&](const auto& p) { return policy == p.name; });
  return info == infos().end() || info->takes_ratio;
}

const PolicySetting* find_setting(const std::string& policy, const std::string& name) {
  for (const PolicyInfo& info : infos()) {
    if (policy != info.name) continue;
    for (const PolicySetting& setting : info.settings) {
      if (name == setting.name) return &setting;
    }
  }
  return nullptr;
}

std::optional<double> parse_setting(const PolicySetting& setting, const std::string& text) {
  for (size_t i = 0; i < setting.choices.size(); ++i) {
    if (text == setting.choices[i]) return static_cast<double>(i);
  }
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0') return std::nullopt;
  return value;
}

std::string setting_values(const PolicySetting& setting) {
  if (setting.choices.empty()) return number_text(setting.min) + " to " + number_text(setting.max);
  std::string names;
  for (const char* choice : setting.choices) names += (names.empty() ? "" : ", ") + std::string(choice);
  return names;
}

std::string settings_help() {
  std::string text = "A setting of the policy; may be given again. Known:";
  for (const PolicyInfo& policy : infos()) {
    for (const PolicySetting& s : policy.settings) {
      const auto i = static_cast<size_t>(s.default_value);
      const std::string value = i < s.choices.size() ? s.choices[i] : number_text(s.default_value);
      text += std::string("\n  ") + policy.name + ": " + s.name + "=" + value + " in [" + setting_values(s) + "]: ";
      text += s.sentence;
    }
  }
  return text;
}

}  // namespace vestige::tools
