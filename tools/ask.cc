// vestige ask: questions to a .vctx file.

#include <chrono>
#include <cstdio>
#include <memory>

#include "tools/answer.h"
#include "tools/command.h"
#include "tools/exit_code.h"
#include "tools/flags.h"
#include "tools/report.h"

namespace vestige::tools {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct AskFlags {
  EngineFlags engine;
  std::string file, policy, ratio;
  std::vector<std::string> questions;
  int32_t n_tokens = 32;
  bool json = false, stats = false, raw = false;
};

LoadOptions load_options(const AskFlags& flags, const ContextFile& file) {
  LoadOptions options;
  if (flags.policy.empty() || (flags.policy == file.policy().name && flags.ratio.empty())) return options;
  options.policy = file.policy();
  options.policy->name = flags.policy;
  options.policy->settings.clear();
  if (!flags.ratio.empty()) options.policy->ratio = parse_ratio(flags.ratio).value_or(0);
  return options;
}

Status run(AskFlags flags) {
  const auto start = Clock::now();
  VESTIGE_ASSIGN(const auto file, ContextFile::open(flags.file));
  const double open_s = seconds_since(start);
  const bool hinted = flags.engine.model_dir.empty();
  if (hinted) flags.engine.model_dir = file->model_dir();
  if (flags.engine.model_dir.empty()) return invalid_argument("the file names no model folder, give one with -m");
  const auto engine_start = Clock::now();
  auto created = Engine::create(flags.engine.options());
  if (!created.ok()) {
    return hinted ? created.status().with_context("model folder taken from the file, give another with -m")
                  : created.status();
  }
  Engine& engine = **created;
  const double engine_s = seconds_since(engine_start);
  const size_t n_layers = engine.model().info().cache_layers.size();

  const AnswerOptions options{load_options(flags, *file), flags.n_tokens, flags.raw};
  for (const std::string& question : flags.questions) {  // all, before the first answer is printed
    VESTIGE_TRY(encode_question(engine, *file, question, flags.raw).status());
  }
  Json answers = Json::array();
  for (const std::string& question : flags.questions) {
    VESTIGE_ASSIGN(const Answer a, answer(engine, file, question, options));
    if (flags.json) {
      answers.push_back(answer_json(question, a, n_layers));
    } else {
      std::printf("%s\n", a.text.c_str());
      if (std::fflush(stdout) != 0) return io_error("cannot write to stdout");
    }
    if (flags.stats) std::fprintf(stderr, "%s\n%s", question.c_str(), stats_text(a.result, n_layers).c_str());
  }
  if (flags.json) {
    print_json({{"file", flags.file},
                {"file_bytes", file->size_bytes()},
                {"tokens", file->n_tokens()},
                {"model", flags.engine.model_dir},
                {"policy", policy_json(options.load.policy.value_or(file->policy()))},
                {"open_s", open_s},
                {"engine_s", engine_s},
                {"answers", answers}});
  }
  return {};
}

}  // namespace

Command add_ask(CLI::App& root) {
  auto flags = std::make_shared<AskFlags>();
  CLI::App* app = root.add_subcommand("ask", "Ask a .vctx file; each question starts from the saved document");
  app->add_option("file", flags->file, "File made by compress")->type_name("FILE.vctx")->required();
  app->add_option("question", flags->questions, "One or more questions")->type_name("QUESTION")->required();
  flags->engine.add(*app, false);
  app->add_option("-n,--tokens", flags->n_tokens, "Most tokens of an answer")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  auto* policy = app->add_option("--policy", flags->policy,
                                 "Attend the file's rows under another policy that has no "
                                 "recall index, e.g. full (the file holds every row)");
  std::vector<std::string> names;
  for (const PolicyInfo& info : policy_infos()) names.emplace_back(info.name);
  policy->type_name("NAME")->check(CLI::IsMember(names));
  app->add_option("--ratio", flags->ratio, "Closed rows per kept row of that policy; the file's if not given")
      ->type_name("R")
      ->needs(policy)
      ->check([](const std::string& text) { return parse_ratio(text) ? "" : "want a number of at least 1"; });
  app->add_flag("--raw", flags->raw, "Feed the text as it is, without \"Question: ... Answer:\" and stop at line end");
  app->add_flag("--json", flags->json, "Answers and numbers as JSON");
  app->add_flag("--stats", flags->stats, "Numbers of each answer, on stderr");
  app->footer(std::string("Examples:\n  vestige ask book.vctx \"Who opened the door?\" --stats\n"
                          "  vestige ask book.vctx \"First question?\" \"Second?\" --json\n"
                          "  vestige ask book.vctx \"Who opened the door?\" --policy full\n\n") +
              kExitCodeHelp);
  return {app, [flags] { return run(*flags); }};
}

}  // namespace vestige::tools
