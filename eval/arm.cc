#include "eval/arm.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace vestige::eval {

namespace {

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

std::optional<double> parse_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

Result<PolicyInfo> find_policy(const std::string& spec, const std::string& name) {
  std::string known;
  for (PolicyInfo& info : policy_infos()) {
    if (name == info.name) return std::move(info);
    known.append(known.empty() ? "" : ", ").append(info.name);
  }
  return invalid_argument("policy \"%s\": no policy \"%s\", want one of: %s", spec.c_str(), name.c_str(),
                          known.c_str());
}

/// `text` as the setting's number: the number itself or the place of a choice.
Result<double> setting_value(const std::string& spec, const PolicySetting& setting, const std::string& text) {
  std::string names;
  for (size_t i = 0; i < setting.choices.size(); ++i) {
    if (text == setting.choices[i]) return static_cast<double>(i);
    names.append(names.empty() ? "" : ", ").append(setting.choices[i]);
  }
  if (!names.empty()) {
    return invalid_argument("policy \"%s\": %s = \"%s\", want one of: %s", spec.c_str(), setting.name, text.c_str(),
                            names.c_str());
  }
  if (const auto value = parse_number(text)) return *value;
  return invalid_argument("policy \"%s\": %s = \"%s\", want a number", spec.c_str(), setting.name, text.c_str());
}

/// One "name=value". Returns it as the canonical name spells it.
Result<std::string> apply_setting(const std::string& spec, const PolicyInfo& info, const std::string& item,
                                  PolicyConfig* config) {
  const size_t at = item.find('=');
  if (at == std::string::npos || at == 0) {
    return invalid_argument("policy \"%s\": setting \"%s\", want name=value", spec.c_str(), item.c_str());
  }
  const std::string name = item.substr(0, at), text = item.substr(at + 1);
  for (const PolicySetting& setting : info.settings) {
    if (name != setting.name) continue;
    VESTIGE_ASSIGN(config->settings[name], setting_value(spec, setting, text));
    return name + "=" + (setting.choices.empty() ? number_text(config->settings[name]) : text);
  }
  const auto whole = parse_number(text);
  const bool common = name == "sinks" || name == "seed";
  if (common && whole && *whole >= 0 && *whole <= INT32_MAX && *whole == std::floor(*whole)) {
    if (name == "sinks") config->n_sinks = static_cast<int32_t>(*whole);
    if (name == "seed") config->seed = static_cast<uint64_t>(*whole);
    return name + "=" + number_text(*whole);
  }
  if (common)
    return invalid_argument("policy \"%s\": %s = \"%s\", want 0, 1, ...", spec.c_str(), name.c_str(), text.c_str());
  return invalid_argument("policy \"%s\": %s has no setting \"%s\"", spec.c_str(), info.name, name.c_str());
}

std::vector<std::string> cut(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  for (size_t at = 0;;) {
    const size_t end = text.find(separator, at);
    pieces.emplace_back(text.substr(at, end - at));
    if (end == std::string_view::npos) return pieces;
    at = end + 1;
  }
}

}  // namespace

Result<std::vector<std::string>> split_specs(std::string_view list) {
  std::vector<std::string> specs;
  for (const std::string& piece : cut(list, ',')) {
    if (piece.empty()) {
      return invalid_argument("policies \"%s\": an empty name between commas", std::string(list).c_str());
    }
    const size_t equals = piece.find('='), at = piece.find('@');
    const bool goes_on = equals != std::string::npos && equals < at;
    if (goes_on && !specs.empty() && specs.back().find('@') != std::string::npos) {
      specs.back().append(",").append(piece);
    } else {
      specs.push_back(piece);
    }
  }
  return specs;
}

Result<std::vector<Arm>> parse_spec(const std::string& spec, std::span<const double> ratios, int32_t block_rows) {
  const size_t at = spec.find('@');
  const std::string head = spec.substr(0, at), name = head.substr(0, head.find(':'));
  VESTIGE_ASSIGN(const PolicyInfo info, find_policy(spec, name));
  Arm base;
  base.policy.name = name;
  base.policy.block_rows = block_rows;
  std::string suffix;
  if (at != std::string::npos) {
    std::vector<std::string> settings;
    for (const std::string& item : cut(std::string_view(spec).substr(at + 1), ',')) {
      VESTIGE_ASSIGN(settings.emplace_back(), apply_setting(spec, info, item, &base.policy));
    }
    std::sort(settings.begin(), settings.end());
    for (const std::string& s : settings) suffix.append(suffix.empty() ? "@" : ",").append(s);
  }
  std::vector<double> wanted(ratios.begin(), ratios.end());
  if (head.size() > name.size()) {
    std::string text = head.substr(name.size() + 1);
    if (text.ends_with('x')) text.pop_back();
    const auto ratio = parse_number(text);
    if (!ratio || *ratio < 1) {
      return invalid_argument("policy \"%s\": ratio \"%s\", want a number of at least 1", spec.c_str(), text.c_str());
    }
    if (!info.takes_ratio) {
      return invalid_argument("policy \"%s\": %s takes no ratio", spec.c_str(), name.c_str());
    }
    wanted = {*ratio};
  }
  if (!info.takes_ratio) wanted = {name == "full" ? 1 : PolicyConfig().ratio};
  std::vector<Arm> arms;
  for (const double ratio : wanted) {
    Arm arm = base;
    arm.policy.ratio = ratio;
    arm.name = name;
    if (info.takes_ratio) arm.name.append(":").append(number_text(ratio));
    arm.name += suffix;
    const Status status = create_policy(arm.policy, RowLayout{}).status();
    // Whether the policy takes the model's rows shows once there is a model.
    if (!status.ok() && status.code() != StatusCode::kUnsupported)
      return status.with_context("policy \"" + spec + "\"");
    arms.push_back(std::move(arm));
  }
  return arms;
}

Result<std::vector<Arm>> parse_arms(std::string_view list, std::span<const double> ratios, int32_t block_rows) {
  VESTIGE_ASSIGN(std::vector<std::string> specs, split_specs(list));
  specs.insert(specs.begin(), "full");
  std::vector<Arm> arms;
  for (const std::string& spec : specs) {
    VESTIGE_ASSIGN(const std::vector<Arm> parsed, parse_spec(spec, ratios, block_rows));
    for (const Arm& arm : parsed) {
      const bool known = std::any_of(arms.begin(), arms.end(), [&](const Arm& a) { return a.name == arm.name; });
      if (!known) arms.push_back(arm);
    }
  }
  return arms;
}

std::string arm_family(const std::string& name) {
  const size_t colon = name.find(':'), at = name.find('@');
  if (colon == std::string::npos || colon > at) return name;
  return name.substr(0, colon) + (at == std::string::npos ? "" : name.substr(at));
}

}  // namespace vestige::eval
