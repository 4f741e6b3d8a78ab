#include <string>

#include "model/tokenizer/loader.h"

namespace vestige {

namespace {

using nlohmann::json;

std::string type_of(const json& component) {
  const json* type = json_member(component, "type");
  return type != nullptr && type->is_string() ? type->get_ref<const std::string&>() : std::string("(no type)");
}

// The value of a boolean setting, `fallback` where it is missing.
Result<bool> flag(const json& component, const char* name, bool fallback) {
  const json* value = json_member(component, name);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) return data_loss("%s.%s: want true or false", type_of(component).c_str(), name);
  return value->get<bool>();
}

// The components of a Sequence under `list`, or the component itself.
Result<std::vector<const json*>> components(const json* component, const char* field, const char* list) {
  std::vector<const json*> found;
  if (component == nullptr) return found;
  if (!component->is_object()) return data_loss("%s: want an object or null", field);
  if (type_of(*component) != "Sequence") {
    found.push_back(component);
    return found;
  }
  const json* inner = json_member(*component, list);
  if (inner == nullptr || !inner->is_array()) return data_loss("%s.%s: want a list", field, list);
  for (const json& one : *inner) {
    if (!one.is_object()) return data_loss("%s.%s: want a list of objects", field, list);
    found.push_back(&one);
  }
  return found;
}

Result<SplitRule> read_split(const json& component) {
  const json* pattern = json_member(component, "pattern");
  const json* regex = pattern == nullptr ? nullptr : json_member(*pattern, "Regex");
  if (regex == nullptr || !regex->is_string()) return unsupported("pre_tokenizer Split: pattern without a Regex");
  const std::string& text = regex->get_ref<const std::string&>();
  const std::optional<SplitRule> rule = split_rule_of_regex(text);
  if (!rule) return unsupported("pre_tokenizer Split: no scanner for the regex \"%.300s\"", text.c_str());
  const json* behavior = json_member(component, "behavior");
  if (behavior == nullptr || *behavior != "Isolated") {
    return unsupported("pre_tokenizer Split: behavior other than Isolated");
  }
  VESTIGE_ASSIGN(const bool invert, flag(component, "invert", false));
  if (invert) return unsupported("pre_tokenizer Split: invert = true");
  return *rule;
}

Status read_byte_level(const json& component, std::vector<SplitRule>* rules) {
  VESTIGE_ASSIGN(const bool prefix_space, flag(component, "add_prefix_space", true));
  if (prefix_space) return unsupported("pre_tokenizer ByteLevel: add_prefix_space = true");
  VESTIGE_ASSIGN(const bool use_regex, flag(component, "use_regex", true));
  if (use_regex) rules->push_back(SplitRule::kGpt2);
  return {};
}

Result<std::vector<SplitRule>> read_pre_tokenizer(const json& root) {
  VESTIGE_ASSIGN(const std::vector<const json*> parts,
                 components(json_member(root, "pre_tokenizer"), "pre_tokenizer", "pretokenizers"));
  if (parts.size() > 8) return unsupported("pre_tokenizer: %zu components, at most 8 are done", parts.size());
  std::vector<SplitRule> rules;
  bool mapped = false;
  for (const json* part : parts) {
    const std::string type = type_of(*part);
    if (mapped) return unsupported("pre_tokenizer: %.64s after ByteLevel", type.c_str());
    if (type == "ByteLevel") {
      VESTIGE_TRY(read_byte_level(*part, &rules));
      mapped = true;
    } else if (type == "Digits") {
      VESTIGE_ASSIGN(const bool individual, flag(*part, "individual_digits", false));
      if (!individual) return unsupported("pre_tokenizer Digits: individual_digits = false");
      rules.push_back(SplitRule::kDigits);
    } else if (type == "Split") {
      VESTIGE_ASSIGN(const SplitRule rule, read_split(*part));
      rules.push_back(rule);
    } else {
      return unsupported("pre_tokenizer %.64s", type.c_str());
    }
  }
  if (!mapped) return unsupported("pre_tokenizer without ByteLevel");
  return rules;
}

}  // namespace

Result<std::vector<SplitRule>> read_pipeline(const json& root) {
  VESTIGE_ASSIGN(const std::vector<const json*> normalizers,
                 components(json_member(root, "normalizer"), "normalizer", "normalizers"));
  if (!normalizers.empty()) return unsupported("normalizer %.64s", type_of(*normalizers[0]).c_str());
  VESTIGE_ASSIGN(std::vector<SplitRule> rules, read_pre_tokenizer(root));
  // These two only add tokens around the text or move offsets, which encode() does not give.
  VESTIGE_ASSIGN(const std::vector<const json*> processors,
                 components(json_member(root, "post_processor"), "post_processor", "processors"));
  for (const json* part : processors) {
    const std::string type = type_of(*part);
    if (type != "ByteLevel" && type != "TemplateProcessing") return unsupported("post_processor %.64s", type.c_str());
  }
  const json* decoder = json_member(root, "decoder");
  if (decoder == nullptr) return unsupported("decoder null, want ByteLevel");
  if (type_of(*decoder) != "ByteLevel") return unsupported("decoder %.64s, want ByteLevel", type_of(*decoder).c_str());
  return rules;
}

}  // namespace vestige
