#include "tools/flags.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "tools/default_policy.h"
#include "tools/settings.h"
#include "vestige/device.h"
#include "vestige/policy.h"

namespace vestige::tools {

void EngineFlags::add(CLI::App& app, bool model_required) {
  auto* model =
      app.add_option("-m,--model", model_dir, "Model folder (config.json, *.safetensors, tokenizer) or .gguf file");
  model->envname("VESTIGE_MODEL")->type_name("DIR")->required(model_required);
  app.add_option("-t,--threads", n_threads, "CPU threads; 0 = one per physical core")
      ->envname("VESTIGE_THREADS")
      ->type_name("N")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  std::vector<std::string> names;
  for (const std::string_view known : backend_names()) names.emplace_back(known);
  app.add_option("--backend", backend, "Who computes")
      ->type_name("NAME")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  app.add_flag("-q,--quiet", quiet, "No progress and no choice of policy on stderr");
}

EngineOptions EngineFlags::options() const {
  EngineOptions options;
  options.model_dir = model_dir;
  options.stream.backend = backend;
  options.stream.n_threads = n_threads;
  return options;
}

std::optional<double> parse_ratio(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str()) return std::nullopt;
  const std::string rest = end;
  if (!(rest.empty() || rest == "x" || rest == "X") || !std::isfinite(value) || value < 1) return std::nullopt;
  return value;
}

namespace {

PolicyConfig policy_named(const std::string& name) {
  PolicyConfig policy;
  policy.name = name;
  return policy;
}

std::string check_setting(const std::string& text) {
  const size_t at = text.find('=');
  const bool good = at != std::string::npos && at > 0 && at + 1 < text.size();
  return good ? "" : "\"" + text + "\", want name=number or name=choice";
}

}  // namespace

void PolicyFlags::add(CLI::App& app) {
  std::vector<std::string> names;
  for (const PolicyInfo& policy : policy_infos()) names.emplace_back(policy.name);
  app.add_option("--policy", name, "Which rows stay attended, or how all are coded (default: by model)")
      ->type_name("NAME")
      ->check(CLI::IsMember(names));
  auto* by_ratio = app.add_option("--ratio", ratio,
                                  "Closed rows per kept row, or bytes per byte of code; at least 1, as 32 or 32x "
                                  "(default 32; of klt chosen by model 20)");
  by_ratio->type_name("R")->check(
      [](const std::string& text) { return parse_ratio(text) ? "" : "\"" + text + "\", want a number of at least 1"; });
  app.add_option("--keep", keep, "The same as a share of rows: 1 / ratio")
      ->type_name("SHARE")
      ->check(CLI::Range(1e-9, 1.0))
      ->excludes(by_ratio);
  app.add_option("--block-rows", block_rows, "Rows of a block (default 4096; of klt chosen by model 256)")
      ->type_name("N")
      ->check(CLI::Range(64, 1 << 20));
  app.add_option("--sinks", n_sinks, "First rows, always kept")->type_name("N")->check(CLI::Range(0, 1 << 20));
  app.add_option("--policy-seed", seed, "Of policies that draw at random")->type_name("N");
  app.add_option("--set", settings, settings_help())->type_name("NAME=VALUE")->check(check_setting)->take_all();
}

std::string PolicyFlags::problem(const PolicyConfig& base) const {
  for (const std::string& text : settings) {
    const size_t at = text.find('=');
    const PolicySetting* setting = find_setting(base.name, text.substr(0, at));  // create_policy names an unknown one
    if (setting == nullptr || parse_setting(*setting, text.substr(at + 1))) continue;
    return base.name + "." + text + ", want " + setting_values(*setting);
  }
  // Of `full` it never was an error, and nobody can mistake it.
  const bool given = !ratio.empty() || keep.has_value();
  if (given && !takes_ratio(base.name) && base.name != "full" && over(base).ratio != 1) {
    return "--ratio: the bytes of policy " + base.name + " follow from its settings, want none, or 1 for exact rows";
  }
  const Status status = create_policy(over(base), RowLayout{}).status();
  return status.code() == StatusCode::kInvalidArgument ? status.message() : "";
}

void PolicyFlags::check() const {
  std::string found;
  if (!name.empty()) {
    found = problem(policy_named(name));
  } else {  // which of these it will be, the model says later
    for (const PolicyConfig& base : default_policies()) {
      found = problem(base);
      if (found.empty()) break;
    }
  }
  if (!found.empty()) throw CLI::ValidationError(found);
}

PolicyConfig PolicyFlags::config(const std::vector<CacheLayer>& layers) const {
  return over(name.empty() ? default_policy(layers) : policy_named(name));
}

void PolicyFlags::print_choice(const PolicyConfig& policy, const std::vector<CacheLayer>& layers, bool quiet) const {
  if (!name.empty() || quiet || std::fflush(stdout) != 0) return;
  std::fprintf(stderr, "%s\n", default_policy_sentence(policy, layers).c_str());
}

PolicyConfig PolicyFlags::over(PolicyConfig config) const {
  if (!ratio.empty()) config.ratio = parse_ratio(ratio).value_or(0);
  if (keep) config.ratio = 1 / *keep;
  if (block_rows) config.block_rows = *block_rows;
  if (n_sinks) config.n_sinks = *n_sinks;
  if (seed) config.seed = *seed;
  for (const std::string& setting : settings) {
    const size_t at = setting.find('=');
    const std::string key = setting.substr(0, at);
    const PolicySetting* known = find_setting(config.name, key);
    config.settings[key] = known == nullptr ? 0 : parse_setting(*known, setting.substr(at + 1)).value_or(NAN);
  }
  return config;
}

}  // namespace vestige::tools
