// vestige compress: a document to a .vctx file.

#include <cstdio>
#include <memory>

#include "tools/command.h"
#include "tools/exit_code.h"
#include "tools/flags.h"
#include "tools/input.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/report.h"

namespace vestige::tools {

namespace {

struct CompressFlags {
  EngineFlags engine;
  PolicyFlags policy;
  std::string input, output;
  int64_t chunk = 0;
  bool json = false, dry_run = false;
};

Json base_json(const CompressFlags& flags, const PolicyConfig& policy, size_t n_bytes, size_t n_tokens) {
  return {{"input", flags.input},          {"model", flags.engine.model_dir},
          {"policy", policy_json(policy)}, {"policy_chosen_by", flags.policy.chosen_by()},
          {"document_bytes", n_bytes},     {"tokens", n_tokens}};
}

Status dry_run(const CompressFlags& flags, const Engine& engine, const PolicyConfig& policy, Json out) {
  VESTIGE_ASSIGN(const RowCounts rows, plan_rows(engine.model().info(), policy, out["tokens"].get<int64_t>()));
  out["rows"] = rows_json(rows);
  if (interrupted()) return cancelled("interrupted");
  if (flags.json) {
    print_json(out);
  } else {
    std::printf("tokens        %lld\n", out["tokens"].get<long long>());
    print_rows(rows, policy);
    std::printf("kept          at most: sinks that the policy picks by score anyway count once\n");
  }
  return {};
}

Status write_file(const CompressFlags& flags, const Context& context, double* seconds) {
  Progress progress("writing", "MB", 1e6, 0, flags.engine.quiet);
  const Status status = context.save(flags.output, progress.callback());
  *seconds = progress.seconds();
  return status;
}

Status compress(const CompressFlags& flags, Engine& engine, const PolicyConfig& policy,
                const std::vector<int32_t>& tokens, Json out) {
  VESTIGE_ASSIGN(const auto context, Context::create(engine, policy));
  double read_s = 0, write_s = 0;
  {
    const auto n_tokens = static_cast<int64_t>(tokens.size());
    Progress progress("reading", "tokens", 1, n_tokens, flags.engine.quiet);
    VESTIGE_TRY(read_document(*context, tokens, flags.chunk, progress.callback()));
    read_s = progress.seconds();
  }
  VESTIGE_TRY(write_file(flags, *context, &write_s));
  VESTIGE_ASSIGN(const int64_t n_bytes, file_bytes(flags.output));
  const RowCounts rows = count_rows(*context);
  const double rate = static_cast<double>(tokens.size()) / read_s;
  if (!flags.json) {
    std::printf("wrote %s: %zu tokens, %s; read at %.0f tokens/s in %.2f s, written in %.2f s\n", flags.output.c_str(),
                tokens.size(), bytes_text(n_bytes).c_str(), rate, read_s, write_s);
    print_rows(rows, policy);
    return {};
  }
  out["output"] = flags.output;
  out["file_bytes"] = n_bytes;
  out["state_bytes"] = context->state_bytes();
  out["rows"] = rows_json(rows);
  out["read_s"] = read_s;
  out["read_tokens_per_s"] = rate;
  out["write_s"] = write_s;
  print_json(out);
  return {};
}

Status run(const CompressFlags& flags) {
  VESTIGE_ASSIGN(const std::string bytes, read_input(flags.input));
  if (bytes.empty()) return invalid_argument("%s is empty, want at least one token", flags.input.c_str());
  if (!flags.dry_run) VESTIGE_TRY(probe_output(flags.output, {flags.input}, flags.engine.model_dir));
  VESTIGE_ASSIGN(const auto engine, Engine::create(flags.engine.options()));
  VESTIGE_ASSIGN(const std::vector<int32_t> tokens, read_tokens(*engine, bytes, flags.input));
  const std::vector<CacheLayer>& layers = engine->model().info().cache_layers;
  const PolicyConfig policy = flags.policy.config(layers);
  Json out = base_json(flags, policy, bytes.size(), tokens.size());
  if (flags.dry_run) {
    VESTIGE_TRY(dry_run(flags, *engine, policy, std::move(out)));
  } else {
    VESTIGE_TRY(compress(flags, *engine, policy, tokens, std::move(out)));
  }
  flags.policy.print_choice(policy, layers, flags.engine.quiet);
  return {};
}

}  // namespace

Command add_compress(CLI::App& root) {
  auto flags = std::make_shared<CompressFlags>();
  CLI::App* app = root.add_subcommand("compress", "Read a document once and keep it in a .vctx file");
  flags->engine.add(*app, true);
  app->add_option("-i,--input", flags->input, "Document, any bytes; - is stdin")->type_name("FILE")->required();
  auto* output = app->add_option("-o,--output", flags->output, "File to write; replaced whole if it exists");
  output->type_name("FILE.vctx");
  flags->policy.add(*app);
  app->add_option("--chunk", flags->chunk, "Tokens handed over at a time; 0 = all (the file's bytes are the same)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  app->add_flag("--json", flags->json, "Report as JSON");
  auto* dry = app->add_flag("--dry-run", flags->dry_run, "Only say how many rows and bytes would be attended");
  app->callback([flags, output, dry] {
    flags->policy.check();
    if (output->empty() && dry->empty()) throw CLI::RequiredError("-o,--output");
  });
  app->footer(std::string("Examples:\n  vestige compress -m models/nano -i book.txt -o book.vctx\n"
                          "  vestige compress -m models/nano -i book.txt --ratio 64x --dry-run\n\n") +
              kExitCodeHelp);
  return {app, [flags] { return run(*flags); }};
}

}  // namespace vestige::tools
