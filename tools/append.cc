// vestige append: more text at the end of a .vctx file.

#include <cstdio>
#include <memory>

#include "tools/command.h"
#include "tools/exit_code.h"
#include "tools/flags.h"
#include "tools/input.h"
#include "tools/open_context.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/report.h"

namespace vestige::tools {

namespace {

struct AppendFlags {
  EngineFlags engine;
  std::string file, input, output;
  bool json = false;
};

Result<std::vector<int32_t>> new_tokens(const OpenContext& open, const std::string& bytes, const std::string& name) {
  VESTIGE_ASSIGN(std::vector<int32_t> tokens, read_tokens(*open.engine, bytes, name));
  const int64_t needed = open.file->n_tokens() + static_cast<int64_t>(tokens.size());
  const int64_t allowed = open.engine->model().info().max_tokens;
  if (needed <= allowed) return tokens;
  return invalid_argument("%s: %zu tokens behind the file's %lld, the model's window allows %lld", name.c_str(),
                          tokens.size(), static_cast<long long>(open.file->n_tokens()),
                          static_cast<long long>(allowed));
}

Status run(const AppendFlags& flags) {
  const std::string output = flags.output.empty() ? flags.file : flags.output;
  VESTIGE_ASSIGN(const std::string bytes, read_input(flags.input));
  if (bytes.empty()) return invalid_argument("%s is empty, want at least one token", flags.input.c_str());
  VESTIGE_ASSIGN(const OpenContext open, open_context(flags.file, flags.engine));
  VESTIGE_TRY(probe_output(output, {flags.input}, open.model_dir));
  VESTIGE_ASSIGN(const std::vector<int32_t> tokens, new_tokens(open, bytes, flags.input));
  VESTIGE_ASSIGN(const auto context, Context::load(*open.engine, open.file));
  double read_s = 0, write_s = 0;
  {
    Progress progress("reading", "tokens", 1, static_cast<int64_t>(tokens.size()), flags.engine.quiet);
    const ProgressFn report = progress.callback();
    const int64_t n_before = context->n_tokens();
    VESTIGE_TRY(context->extend(tokens, [&](int64_t n, int64_t total) { return report(n - n_before, total); }));
    read_s = progress.seconds();
  }
  {
    Progress progress("writing", "MB", 1e6, 0, flags.engine.quiet);
    VESTIGE_TRY(context->save(output, progress.callback()));
    write_s = progress.seconds();
  }
  VESTIGE_ASSIGN(const int64_t n_bytes, file_bytes(output));
  const double rate = static_cast<double>(tokens.size()) / read_s;
  const RowCounts rows = count_rows(*context);
  if (flags.json) {
    print_json({{"file", flags.file},
                {"input", flags.input},
                {"model", open.model_dir},
                {"policy", policy_json(open.file->policy())},
                {"appended_bytes", bytes.size()},
                {"appended_tokens", tokens.size()},
                {"tokens", context->n_tokens()},
                {"output", output},
                {"file_bytes", n_bytes},
                {"rows", rows_json(rows)},
                {"read_s", read_s},
                {"read_tokens_per_s", rate},
                {"write_s", write_s}});
    return {};
  }
  std::printf("wrote %s: %zu tokens behind %lld, %s; read at %.0f tokens/s in %.2f s, written in %.2f s\n",
              output.c_str(), tokens.size(), static_cast<long long>(open.file->n_tokens()), bytes_text(n_bytes).c_str(),
              rate, read_s, write_s);
  print_rows(rows, open.file->policy());
  return {};
}

}  // namespace

Command add_append(CLI::App& root) {
  auto flags = std::make_shared<AppendFlags>();
  CLI::App* app = root.add_subcommand("append", "Read more text behind the document of a .vctx file");
  app->add_option("file", flags->file, "File made by compress")->type_name("FILE.vctx")->required();
  app->add_option("text", flags->input, "Text to append, any bytes; - is stdin")->type_name("TEXT_FILE")->required();
  flags->engine.add(*app, false);
  app->add_option("-o,--output", flags->output, "File to write instead of replacing FILE.vctx")->type_name("OUT.vctx");
  app->add_flag("--json", flags->json, "Report as JSON");
  app->footer(std::string("Examples:\n  vestige append book.vctx chapter2.txt\n"
                          "  tail -c +100 log.txt | vestige append log.vctx - -o longer.vctx --json\n\n") +
              kExitCodeHelp);
  return {app, [flags] { return run(*flags); }};
}

}  // namespace vestige::tools
