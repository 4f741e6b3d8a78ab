// vestige inspect: what is inside a model or a .vctx file.

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "base/safetensors.h"
#include "engine/context_format.h"
#include "model/gguf_model.h"
#include "tools/command.h"
#include "tools/exit_code.h"
#include "tools/interrupt.h"
#include "tools/report.h"

namespace vestige::tools {

namespace {

struct InspectFlags {
  std::string path;
  bool json = false;
};

Json layers_json(const std::vector<CacheLayer>& layers) {
  Json out = Json::array();
  for (const CacheLayer& l : layers) {
    out.push_back({{"layer", l.layer},
                   {"heads", l.h_q},
                   {"d_content", l.layout.d_content},
                   {"d_branch", l.layout.d_branch},
                   {"dtype", dtype_name(l.layout.dtype)},
                   {"row_bytes", l.layout.row_bytes()}});
    if (l.head >= 0) out.back()["kv_head"] = l.head;
  }
  return out;
}

/// Bytes by what the tensors are for; names are those of docs/formats.md.
Json part_bytes(const std::vector<SafetensorsEntry>& tensors, int64_t n_file) {
  const auto part_of = [](const SafetensorsEntry& t) -> std::string {
    const std::string last = t.name.substr(t.name.rfind('.') + 1);
    if (!t.name.starts_with("layers."))
      return t.name.starts_with("state.") ? "state" : t.name.starts_with("__pad") ? "padding" : t.name;
    if (last == "content" || last == "branch" || last == "tail_content" || last == "tail_branch") return "rows";
    if (last == "kept_rows" || last == "kept_ids") return "kept";
    const bool is_score = last == "score" || last == "kept_score" || last == "counts" || last == "dropped";
    return is_score ? "score" : "index";
  };
  std::map<std::string, int64_t> parts;
  int64_t n_tensors = 0;
  for (const SafetensorsEntry& t : tensors) {
    parts[part_of(t)] += static_cast<int64_t>(t.n_bytes);
    n_tensors += static_cast<int64_t>(t.n_bytes);
  }
  parts["header"] = n_file - n_tensors;
  return parts;
}

/// What the calibration of the recall index gave, of each layer that has one. @param policy with all its settings
Result<Json> calibration_json(const ContextFile& file, const SafetensorsFile& tensors, const PolicyConfig& policy) {
  const auto setting = [&](const char* name) {
    const auto at = policy.settings.find(name);
    return at == policy.settings.end() ? 0.0 : at->second;
  };
  // The bound of codec klt is certain at 1.
  const double largest = setting("codec") == 0 ? std::min(1.0, setting("z_max")) : setting("z_max");
  Json out = Json::array();
  for (const CacheLayer& layer : file.cache_layers()) {
    const std::string name = layer_prefix(layer) + "z";
    if (tensors.entry(name) == nullptr) continue;
    VESTIGE_ASSIGN(const ConstTensorView z, file.tensors().get(name, DType::kF32, {-1}));
    const std::vector<double> stages(z.as<float>(), z.as<float>() + z.dim(0));
    const bool at_most = std::all_of(stages.begin(), stages.end(), [&](double x) { return x >= largest; });
    out.push_back({{"layer", layer.layer}, {"z", stages}, {"is_z_max", at_most}});
    if (layer.head >= 0) out.back()["kv_head"] = layer.head;
  }
  return out;
}

Result<Json> inspect_file(const std::string& path) {
  VESTIGE_ASSIGN(const auto file, ContextFile::open(path, [](int64_t, int64_t) { return !interrupted(); }));
  VESTIGE_ASSIGN(const SafetensorsFile tensors, SafetensorsFile::open(path));
  PolicyConfig policy = file->policy();  // with the settings that the file leaves at their defaults
  if (!file->cache_layers().empty()) {
    VESTIGE_ASSIGN(const auto made, create_policy(policy, file->cache_layers()[0].layout));
    policy = made->config();
  }
  VESTIGE_ASSIGN(const Json calibration, calibration_json(*file, tensors, policy));
  return Json{{"kind", "context"},
              {"file", path},
              {"file_bytes", file->size_bytes()},
              {"vestige_version", file->vestige_version()},
              {"tokens", file->n_tokens()},
              {"policy", policy_json(policy)},
              {"model", file->model_dir()},
              {"model_identity", file->model_identity()},
              {"tokenizer_identity", file->tokenizer_identity()},
              {"attention_layers", layers_json(file->cache_layers())},
              {"calibration", calibration},
              {"part_bytes", part_bytes(tensors.tensors(), file->size_bytes())}};
}

Result<Json> inspect_model(const std::string& path) {
  VESTIGE_ASSIGN(const auto model, Model::load(path, {}));
  VESTIGE_ASSIGN(const auto tokenizer, Tokenizer::load(path));
  VESTIGE_ASSIGN(const auto state, model->create_state());
  const ModelInfo& info = model->info();
  int64_t row_bytes = 0;
  for (const CacheLayer& l : info.cache_layers) row_bytes += l.layout.row_bytes();
  Json out{{"kind", "model"},
           {"model", path},
           {"arch", info.arch},
           {"model_identity", info.identity},
           {"tokenizer_identity", tokenizer->fingerprint()},
           {"parameters", info.n_params},
           {"weight_bytes", info.weight_bytes},
           {"active_weight_bytes", info.active_weight_bytes},
           {"layers", info.n_layers},
           {"d_model", info.d_model},
           {"vocabulary", info.n_vocab},
           {"window_tokens", info.max_tokens},
           {"state_bytes", state->size_bytes()},
           {"row_bytes_per_token", row_bytes},
           {"attention_layers", layers_json(info.cache_layers)}};
  if (!tokenizer->chat_template().empty()) out["chat_template"] = tokenizer->chat_template();
  return out;
}

/// "name  value" lines; nested values are written out in one line of JSON.
void print_table(const Json& value) {
  size_t width = 0;
  for (const auto& [key, item] : value.items()) width = std::max(width, key.size());
  const auto line = [&](const std::string& key, const Json& item) {
    const bool bytes = item.is_number_integer() && key.find("bytes") != std::string::npos;
    const std::string text = bytes              ? bytes_text(item.get<int64_t>()) + " (" + item.dump() + ")"
                             : item.is_string() ? item.get<std::string>()
                                                : item.dump(-1, ' ', false, Json::error_handler_t::replace);
    std::printf("%-*s  %s\n", static_cast<int>(width), key.c_str(), printable(text).c_str());
  };
  for (const auto& [key, item] : value.items()) {
    if (key == "attention_layers") {
      for (const Json& layer : item) line("attention layer", layer);
    } else if (key == "calibration") {
      for (const Json& layer : item) {
        line(key,
             "layer " + layer["layer"].dump() + (layer.contains("kv_head") ? " head " + layer["kv_head"].dump() : "") +
                 ": z = " + layer["z"].dump() +
                 (layer["is_z_max"].get<bool>() ? " = z_max (too few queries, or none as low, to calibrate)" : ""));
      }
    } else {
      line(key, item);
    }
  }
}

Status run(const InspectFlags& flags) {
  struct stat info {};
  if (stat(flags.path.c_str(), &info) != 0) return not_found("%s: no such file or folder", flags.path.c_str());
  VESTIGE_ASSIGN(const Json out, S_ISDIR(info.st_mode) || is_gguf_path(flags.path) ? inspect_model(flags.path)
                                                                                   : inspect_file(flags.path));
  if (interrupted()) return cancelled("interrupted");
  flags.json ? print_json(out) : print_table(out);
  return {};
}

}  // namespace

Command add_inspect(CLI::App& root) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* app = root.add_subcommand("inspect", "Show what is inside a model or a .vctx file (and check it)");
  app->add_option("path", flags->path, "Model folder, .gguf file or context file")
      ->type_name("MODEL|FILE.vctx")
      ->required();
  app->add_flag("--json", flags->json, "As JSON");
  app->footer(std::string("Examples:\n  vestige inspect models/nano\n  vestige inspect book.vctx --json\n\n") +
              kExitCodeHelp);
  return {app, [flags] { return run(*flags); }};
}

}  // namespace vestige::tools
