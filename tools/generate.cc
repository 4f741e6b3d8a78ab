// vestige generate: text from a prompt, without a file.

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "tools/command.h"
#include "tools/exit_code.h"
#include "tools/flags.h"
#include "tools/input.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/report.h"

namespace vestige::tools {

namespace {

struct GenerateFlags {
  EngineFlags engine;
  PolicyFlags policy;
  GenerateOptions options;
  std::string prompt, prompt_file;
  bool json = false, stats = false;
};

Status run(const GenerateFlags& flags) {
  std::string prompt = flags.prompt;
  if (!flags.prompt_file.empty()) {
    VESTIGE_ASSIGN(prompt, read_input(flags.prompt_file));
  }
  VESTIGE_ASSIGN(const auto engine, Engine::create(flags.engine.options()));
  VESTIGE_ASSIGN(const std::vector<int32_t> tokens,
                 read_tokens(*engine, prompt, flags.prompt_file.empty() ? "the prompt" : flags.prompt_file));
  const PolicyConfig policy = flags.policy.config(engine->model().info().cache_layers);
  VESTIGE_ASSIGN(const auto context, Context::create(*engine, policy));
  double read_s = 0;
  {
    Progress progress("reading", "tokens", 1, static_cast<int64_t>(tokens.size()), flags.engine.quiet);
    VESTIGE_TRY(read_document(*context, tokens, 0, progress.callback()));
    read_s = progress.seconds();
  }
  GenerateOptions options = flags.options;
  options.on_text = [&](std::string_view piece) {
    if (!flags.json) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    }
    return !interrupted();
  };
  VESTIGE_ASSIGN(const GenerateResult result, generate(*engine, *context, options));
  const size_t n_layers = engine->model().info().cache_layers.size();
  if (flags.json) {
    print_json({{"model", flags.engine.model_dir},
                {"policy", policy_json(policy)},
                {"policy_chosen_by", flags.policy.chosen_by()},
                {"prompt_tokens", tokens.size()},
                {"text", result.text},
                {"tokens", result.tokens},
                {"finish_reason", result.finish_reason},
                {"read_s", read_s},
                {"decode_s", result.decode_s},
                {"stats", stats_json(result, n_layers)}});
  } else {
    std::printf("\n");
  }
  if (flags.stats) std::fprintf(stderr, "%s", stats_text(result, n_layers).c_str());
  if (interrupted()) return cancelled("interrupted");
  flags.policy.print_choice(policy, engine->model().info().cache_layers, flags.engine.quiet);
  return {};
}

}  // namespace

Command add_generate(CLI::App& root) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* app = root.add_subcommand("generate", "Continue a prompt, without a file");
  flags->engine.add(*app, true);
  auto* prompt = app->add_option("-p,--prompt", flags->prompt, "Prompt text")->type_name("TEXT");
  auto* file = app->add_option("-f,--file", flags->prompt_file, "Prompt from a file; - is stdin")->type_name("FILE");
  file->excludes(prompt);
  app->callback([flags, prompt, file] {
    flags->policy.check();
    if (prompt->empty() && file->empty()) throw CLI::RequiredError("-p,--prompt or -f,--file");
  });
  flags->options.n_tokens = 64;
  app->add_option("-n,--tokens", flags->options.n_tokens, "Most tokens to generate; 0 = only read the prompt")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  app->add_option("--temp", flags->options.temperature, "Sampling temperature; 0 = greedy")
      ->check([](const std::string& text) {
        const double t = std::strtod(text.c_str(), nullptr);
        return t >= 0 && t <= 100 ? "" : "want a number in [0, 100]";
      })
      ->type_name("T")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app->add_option("--seed", flags->options.seed, "Of the sampling")->type_name("N")->capture_default_str();
  app->add_option("--stop", flags->options.stop, "End when the text contains this; may be given again")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  flags->policy.add(*app);
  app->add_flag("--json", flags->json, "Text and numbers as JSON");
  app->add_flag("--stats", flags->stats, "Numbers, on stderr");
  app->footer(std::string("Examples:\n  vestige generate -m models/nano -p \"Once upon a time\" -n 50\n"
                          "  vestige generate -m models/nano -f prompt.txt --temp 0.8 --seed 1\n\n") +
              kExitCodeHelp);
  return {app, [flags] { return run(*flags); }};
}

}  // namespace vestige::tools
