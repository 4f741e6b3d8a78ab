#include "engine/context_format.h"

#include <algorithm>
#include <nlohmann/json.hpp>

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
    out.push_back({{"layer", l.layer},
                   {"d_content", l.layout.d_content},
                   {"d_branch", l.layout.d_branch},
                   {"dtype", dtype_name(l.layout.dtype)},
                   {"h_q", l.h_q},
                   {"scale", l.scale}});
  }
  return out.dump();
}

Result<PolicyConfig> parse_policy(const json& value) {
  PolicyConfig policy;
  policy.name = value.at("name").get<std::string>();
  policy.block_rows = value.at("block_rows").get<int32_t>();
  policy.ratio = value.at("ratio").get<double>();
  policy.n_sinks = value.at("n_sinks").get<int32_t>();
  policy.seed = value.at("seed").get<uint64_t>();
  policy.settings = value.at("settings").get<std::map<std::string, double>>();
  return policy;
}

Result<std::vector<CacheLayer>> parse_layers(const json& value) {
  std::vector<CacheLayer> layers;
  for (const json& item : value) {
    CacheLayer l;
    l.layer = item.at("layer").get<int32_t>();
    l.layout.d_content = item.at("d_content").get<int32_t>();
    l.layout.d_branch = item.at("d_branch").get<int32_t>();
    l.layout.dtype = item.at("dtype").get<std::string>() == dtype_name(DType::kF32) ? DType::kF32 : DType::kBF16;
    l.h_q = item.at("h_q").get<int32_t>();
    l.scale = item.at("scale").get<float>();
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

}  // namespace

std::string layer_prefix(const CacheLayer& layer) { return "layers." + std::to_string(layer.layer) + "."; }

std::map<std::string, std::string> write_metadata(const ContextHeader& header) {
  return {{"format", kContextFormat},
          {"format_version", std::to_string(kContextVersion)},
          {"vestige_version", version()},
          {"model_identity", header.model_identity},
          {"model_dir", header.model_dir},
          {"tokenizer", header.tokenizer},
          {"policy", policy_text(header.policy)},
          {"n_tokens", std::to_string(header.n_tokens)},
          {"layers", layers_text(header.cache_layers)}};
}

Result<ContextHeader> read_metadata(const std::map<std::string, std::string>& metadata) {
  const auto field = [&](const char* name) -> Result<std::string> {
    const auto at = metadata.find(name);
    if (at == metadata.end()) return data_loss("not a .vctx file: metadata field \"%s\" is missing", name);
    return at->second;
  };
  VESTIGE_ASSIGN(const std::string format, field("format"));
  if (format != kContextFormat) return data_loss("not a .vctx file: its format is \"%.80s\"", format.c_str());
  VESTIGE_ASSIGN(const std::string version_text, field("format_version"));
  VESTIGE_ASSIGN(const int64_t format_version, parse_count("format_version", version_text));
  if (format_version > kContextVersion) {
    return unsupported("made by a newer Vestige: format version %lld, this build reads up to %lld",
                       static_cast<long long>(format_version), static_cast<long long>(kContextVersion));
  }
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
