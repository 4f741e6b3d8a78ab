// vestige ask: questions to a .vctx file.

#include <chrono>
#include <cstdio>
#include <memory>

#include "tools/answer.h"
#include "tools/command.h"
#include "tools/exit_code.h"
#include "tools/flags.h"
#include "tools/interrupt.h"
#include "tools/open_context.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/report.h"

namespace vestige::tools {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct AskFlags {
  EngineFlags engine;
  std::string file, policy, ratio;
  std::vector<std::string> questions;
  std::string output;
  int32_t n_tokens = 32;
  bool json = false, stats = false, raw = false, keep = false;
};

LoadOptions load_options(const AskFlags& flags, const ContextFile& file) {
  LoadOptions options;
  if (flags.policy.empty() || (flags.policy == file.policy().name && flags.ratio.empty())) return options;
  options.policy = file.policy();
  options.policy->name = flags.policy;
  options.policy->settings.clear();
  options.progress = [](int64_t, int64_t) { return !interrupted(); };
  if (!flags.ratio.empty()) options.policy->ratio = parse_ratio(flags.ratio).value_or(0);
  return options;
}

/// Where to put what question and answer were added to; "" = nowhere.
std::string kept_in(const AskFlags& flags) {
  if (!flags.keep) return "";
  return flags.output.empty() ? flags.file : flags.output;
}

/// Each question from the saved document, or with --keep one after the other.
Result<std::vector<Answer>> ask_all(const AskFlags& flags, const OpenContext& open, const LoadOptions& load,
                                    std::unique_ptr<Context>* context) {
  const AnswerOptions options{flags.n_tokens, flags.raw};
  const size_t n_layers = open.engine->model().info().cache_layers.size();
  std::vector<Answer> answers;
  for (const std::string& question : flags.questions) {
    double load_s = 0;
    if (*context == nullptr || !flags.keep) {
      const auto start = Clock::now();
      VESTIGE_ASSIGN(*context, Context::load(*open.engine, open.file, load));
      load_s = seconds_since(start);
    }
    VESTIGE_ASSIGN(Answer a, answer(*open.engine, **context, question, options, load_s));
    if (!flags.json) {
      std::printf("%s\n", a.text.c_str());
      if (std::fflush(stdout) != 0) return io_error("cannot write to stdout");
    }
    if (flags.stats) std::fprintf(stderr, "%s\n%s", question.c_str(), stats_text(a.result, n_layers).c_str());
    answers.push_back(std::move(a));
  }
  return answers;
}

Status run(const AskFlags& flags) {
  VESTIGE_ASSIGN(const OpenContext open, open_context(flags.file, flags.engine));
  const std::string output = kept_in(flags);
  if (flags.keep) VESTIGE_TRY(probe_output(output, {}, open.model_dir));
  const LoadOptions load = load_options(flags, *open.file);
  for (const std::string& question : flags.questions) {  // all, before the first answer is printed
    VESTIGE_TRY(encode_question(*open.engine, open.file->n_tokens(), question, flags.raw).status());
  }
  std::unique_ptr<Context> context;
  VESTIGE_ASSIGN(const std::vector<Answer> answers, ask_all(flags, open, load, &context));
  if (flags.keep) {
    Progress progress("writing", "MB", 1e6, 0, flags.engine.quiet);
    VESTIGE_TRY(context->save(output, progress.callback()));
  }
  if (!flags.json) return {};
  Json out = {{"file", flags.file},
              {"file_bytes", open.file->size_bytes()},
              {"tokens", open.file->n_tokens()},
              {"model", open.model_dir},
              {"policy", policy_json(load.policy.value_or(open.file->policy()))},
              {"open_s", open.open_s},
              {"engine_s", open.engine_s},
              {"answers", Json::array()}};
  const size_t n_layers = open.engine->model().info().cache_layers.size();
  for (size_t i = 0; i < answers.size(); ++i) {
    out["answers"].push_back(answer_json(flags.questions[i], answers[i], n_layers));
  }
  if (flags.keep) {
    VESTIGE_ASSIGN(const int64_t n_bytes, file_bytes(output));
    out["output"] = output;
    out["output_bytes"] = n_bytes;
    out["output_tokens"] = context->n_tokens();
  }
  print_json(out);
  return {};
}

}  // namespace

Command add_ask(CLI::App& root) {
  auto flags = std::make_shared<AskFlags>();
  CLI::App* app =
      root.add_subcommand("ask", "Ask a .vctx file; each question starts from the saved document, unless --keep");
  app->add_option("file", flags->file, "File made by compress")->type_name("FILE.vctx")->required();
  app->add_option("question", flags->questions, "One or more questions")->type_name("QUESTION")->required();
  flags->engine.add(*app, false);
  app->add_option("-n,--tokens", flags->n_tokens, "Most tokens of an answer")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  auto* policy = app->add_option("--policy", flags->policy,
                                 "Attend the file's rows under another policy that has no "
                                 "recall index, e.g. full (not if the file's policy dropped rows)");
  std::vector<std::string> names;
  for (const PolicyInfo& info : policy_infos()) names.emplace_back(info.name);
  policy->type_name("NAME")->check(CLI::IsMember(names));
  app->add_option("--ratio", flags->ratio, "Closed rows per kept row of that policy; the file's if not given")
      ->type_name("R")
      ->needs(policy)
      ->check([](const std::string& text) { return parse_ratio(text) ? "" : "want a number of at least 1"; });
  auto* keep =
      app->add_flag("--keep", flags->keep, "Questions follow each other, and stay in the file with their answers");
  keep->excludes(policy);
  app->add_option("-o,--output", flags->output, "With --keep: file to write instead of replacing FILE.vctx")
      ->type_name("OUT.vctx")
      ->needs(keep);
  app->add_flag("--raw", flags->raw, "Feed the text as it is, without \"Question: ... Answer:\" and stop at line end");
  app->add_flag("--json", flags->json, "Answers and numbers as JSON");
  app->add_flag("--stats", flags->stats, "Numbers of each answer, on stderr");
  app->footer(std::string("Examples:\n  vestige ask book.vctx \"Who opened the door?\" --stats\n"
                          "  vestige ask book.vctx \"First question?\" \"Second?\" --json\n"
                          "  vestige ask book.vctx \"Who opened the door?\" --policy full\n"
                          "  vestige ask book.vctx \"And who closed it?\" --keep -o talk.vctx\n\n") +
              kExitCodeHelp);
  return {app, [flags] { return run(*flags); }};
}

}  // namespace vestige::tools
