#include "engine/context_format.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "vestige/version.h"

namespace vestige {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string policy_text(const PolicyConfig& policy) {
  return ordered_json{{"name", policy.name},   {"block_rows", policy.block_rows},
                      {"ratio", policy.ratio}, {"n_sinks", policy.n_sinks},
                      {"seed", policy.seed},   {"settings", policy.settings}}
      .dump();
}

std::string layers_text(const std::vector<CacheLayer>& layers) {
  ordered_json out = ordered_json::array();
  for (const CacheLayer& l : layers) {
    ordered_json item = {{"layer", l.layer},
                         {"d_content", l.layout.d_content},
                         {"d_branch", l.layout.d_branch},
                         {"dtype", dtype_name(l.layout.dtype)},
                         {"h_q", l.h_q},
                         {"scale", l.scale}};
    if (l.head >= 0) item["head"] = l.head;
    if (!l.layout.scored_content) item["scored_content"] = false;
    out.push_back(std::move(item));
  }
  return out.dump();
}

Result<int32_t> int_in(const json& object, const char* key, int32_t min, int32_t max) {
  if (const auto n = json_int(object.at(key), min, max)) return static_cast<int32_t>(*n);
  return data_loss("metadata: %s is not an integer in [%d, %d]", key, min, max);
}

Result<double> number(const json& object, const std::string& key) {
  const json& value = object.at(key);
  if (value.is_number()) return value.get<double>();
  return data_loss("metadata: %.80s is not a number", key.c_str());
}

Result<PolicyConfig> parse_policy(const json& value) {
  PolicyConfig policy;
  policy.name = value.at("name").get<std::string>();
  VESTIGE_ASSIGN(policy.block_rows, int_in(value, "block_rows", 1, INT32_MAX));
  VESTIGE_ASSIGN(policy.ratio, number(value, "ratio"));
  VESTIGE_ASSIGN(policy.n_sinks, int_in(value, "n_sinks", 0, INT32_MAX));
  const json &seed = value.at("seed"), &settings = value.at("settings");
  if (!seed.is_number_unsigned()) return data_loss("metadata: seed is not a count");
  policy.seed = seed.get<uint64_t>();
  if (!settings.is_object()) return data_loss("metadata: settings is not an object");
  for (const auto& item : settings.items()) {
    VESTIGE_ASSIGN(policy.settings[item.key()], number(settings, item.key()));
  }
  return policy;
}

Result<std::vector<CacheLayer>> parse_layers(const json& value) {
  constexpr int32_t kMost = 1 << 20;  // far above any model, far below an overflow
  std::vector<CacheLayer> layers;
  if (!value.is_array()) return data_loss("metadata: layers is not a list");
  for (const json& item : value) {
    CacheLayer l;
    VESTIGE_ASSIGN(l.layer, int_in(item, "layer", 0, kMost));
    VESTIGE_ASSIGN(l.layout.d_content, int_in(item, "d_content", 1, kMost));
    VESTIGE_ASSIGN(l.layout.d_branch, int_in(item, "d_branch", 0, kMost));
    VESTIGE_ASSIGN(l.h_q, int_in(item, "h_q", 1, kMost));
    const auto dtype = item.at("dtype").get<std::string>();
    if (dtype != dtype_name(DType::kF32) && dtype != dtype_name(DType::kBF16)) {
      return data_loss("metadata: dtype is \"%.40s\", want F32 or BF16", dtype.c_str());
    }
    l.layout.dtype = dtype == dtype_name(DType::kF32) ? DType::kF32 : DType::kBF16;
    VESTIGE_ASSIGN(const double scale, number(item, "scale"));
    if (!(scale > 0 && scale <= 1e6)) return data_loss("metadata: scale = %g, want (0, 1e6]", scale);
    l.scale = static_cast<float>(scale);
    if (item.contains("head")) {
      VESTIGE_ASSIGN(l.head, int_in(item, "head", 0, kMost));
    }
    if (item.contains("scored_content")) l.layout.scored_content = item.at("scored_content").get<bool>();
    if (!l.layout.scored_content && l.layout.d_branch < 1) return data_loss("metadata: a layer has nothing to score");
    const auto place = [](const CacheLayer& x) { return std::pair(x.layer, x.head); };
    if (!layers.empty() && place(l) <= place(layers.back())) return data_loss("metadata: layers are not in order");
    layers.push_back(l);
  }
  return layers;
}

/// A metadata field that holds JSON.
template <class Parse>
auto parse_field(const std::string& name, const std::string& text, Parse parse) -> decltype(parse(json())) {
  VESTIGE_ASSIGN(const json value, parse_json(text));
  try {
    return parse(value);
  } catch (const json::exception&) {
    return data_loss("metadata field \"%s\" is not what version %lld of the format wants", name.c_str(),
                     static_cast<long long>(kContextVersion));
  }
}

Result<int64_t> parse_count(const std::string& name, const std::string& text) {
  return parse_field(name, text, [&](const json& value) -> Result<int64_t> {
    if (value.is_number_unsigned() && value.get<uint64_t>() < (uint64_t{1} << 62)) return value.get<int64_t>();
    return data_loss("metadata field \"%s\" is not a count", name.c_str());
  });
}

Status check_version(const std::string& format, const std::string& version_text) {
  if (format != kContextFormat) return data_loss("not a .vctx file: its format is \"%.80s\"", format.c_str());
  VESTIGE_ASSIGN(const int64_t format_version, parse_count("format_version", version_text));
  if (format_version == kContextVersion) return {};
  return unsupported("made by %s Vestige: format version %lld, this build reads %lld",
                     format_version > kContextVersion ? "a newer" : "an older", static_cast<long long>(format_version),
                     static_cast<long long>(kContextVersion));
}

}  // namespace

std::string layer_prefix(const CacheLayer& layer) {
  const std::string prefix = "layers." + std::to_string(layer.layer) + ".";
  return layer.head < 0 ? prefix : prefix + "heads." + std::to_string(layer.head) + ".";
}

std::string path_hint(const std::string& path) {
  std::error_code failed;
  const auto whole = std::filesystem::weakly_canonical(std::filesystem::absolute(path, failed), failed);
  const std::string text = failed ? path : whole.string();
  try {
    (void)json(text).dump();
    return text;
  } catch (const json::exception&) {
    return "";
  }
}

std::map<std::string, std::string> write_metadata(const ContextHeader& header) {
  return {{"format", kContextFormat},
          {"format_version", std::to_string(kContextVersion)},
          {"vestige_version", version()},
          {"model_identity", header.model_identity},
          {"model_dir", path_hint(header.model_dir)},
          {"tokenizer", header.tokenizer},
          {"policy", policy_text(header.policy)},
          {"n_tokens", std::to_string(header.n_tokens)},
          {"layers", layers_text(header.cache_layers)}};
}

Status check_version(std::string_view header) {
  VESTIGE_ASSIGN(const json root, parse_json(header));
  const json* metadata = json_member(root, "__metadata__");
  const auto text = [&](const char* key) {
    const json* value = metadata == nullptr ? nullptr : json_member(*metadata, key);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  };
  return check_version(text("format"), text("format_version"));
}

Result<ContextHeader> read_metadata(const std::map<std::string, std::string>& metadata) {
  const auto field = [&](const char* name) -> Result<std::string> {
    const auto at = metadata.find(name);
    if (at == metadata.end()) return data_loss("not a .vctx file: metadata field \"%s\" is missing", name);
    return at->second;
  };
  VESTIGE_ASSIGN(const std::string format, field("format"));
  VESTIGE_ASSIGN(const std::string version_text, field("format_version"));
  VESTIGE_TRY(check_version(format, version_text));
  ContextHeader header;
  VESTIGE_ASSIGN(header.vestige_version, field("vestige_version"));
  VESTIGE_ASSIGN(header.model_identity, field("model_identity"));
  VESTIGE_ASSIGN(header.model_dir, field("model_dir"));
  VESTIGE_ASSIGN(header.tokenizer, field("tokenizer"));
  VESTIGE_ASSIGN(const std::string policy, field("policy"));
  VESTIGE_ASSIGN(header.policy, parse_field("policy", policy, parse_policy));
  VESTIGE_ASSIGN(const std::string n_tokens, field("n_tokens"));
  VESTIGE_ASSIGN(header.n_tokens, parse_count("n_tokens", n_tokens));
  VESTIGE_ASSIGN(const std::string layers, field("layers"));
  VESTIGE_ASSIGN(header.cache_layers, parse_field("layers", layers, parse_layers));
  for (const CacheLayer& layer : header.cache_layers) {
    const Status made = create_policy(header.policy, layer.layout).status();
    if (!made.ok()) return data_loss("metadata: %s", made.message().c_str());
  }
  return header;
}

std::vector<const SafetensorsEntry*> checked_tensors(const std::vector<SafetensorsEntry>& tensors) {
  std::vector<const SafetensorsEntry*> order;
  for (const SafetensorsEntry& t : tensors) {
    if (t.name != kChecksums) order.push_back(&t);
  }
  std::sort(order.begin(), order.end(), [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
    return std::tie(a->offset, a->n_bytes, a->name) < std::tie(b->offset, b->n_bytes, b->name);
  });
  return order;
}

}  // namespace vestige
