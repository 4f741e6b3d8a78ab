// vestige eval: tasks x policies x ratios x lengths x trials, paired with full attention.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/mapped_file.h"
#include "base/sha256.h"
#include "eval/report.h"
#include "tools/command.h"
#include "tools/exit_code.h"
#include "tools/flags.h"
#include "tools/input.h"
#include "tools/interrupt.h"
#include "vestige/version.h"

namespace vestige::tools {

namespace {

using Clock = std::chrono::steady_clock;

struct EvalFlags {
  EngineFlags engine;
  std::vector<std::string> tasks = {"needle"};
  std::string policies = "vestige", corpus, out, shard = "0/1";
  std::vector<double> ratios = {32};
  std::vector<int64_t> lengths = {8192};
  int32_t n_trials = 24, block_rows = 4096;
  uint64_t seed = 0;
  bool json = false, list = false, aware = false;
};

/// One line on a terminal's stderr: share, what is being done, time left.
class EvalProgress {
 public:
  explicit EvalProgress(bool quiet) : shown_(!quiet && isatty(STDERR_FILENO) != 0) {}
  ~EvalProgress() {
    if (drawn_) std::fprintf(stderr, "\r\033[K");
  }
  EvalProgress(const EvalProgress&) = delete;
  EvalProgress& operator=(const EvalProgress&) = delete;

  bool update(double share, const std::string& what) {
    const auto now = Clock::now();
    if (shown_ && now - last_ > std::chrono::milliseconds(200)) {
      last_ = now;
      const double elapsed = std::chrono::duration<double>(now - start_).count();
      std::fprintf(stderr, "\r\033[K%3.0f%%  %s", 100 * share, what.c_str());
      if (share > 0) std::fprintf(stderr, "  %.0f s left", elapsed / share * (1 - share));
      std::fflush(stderr);
      drawn_ = true;
    }
    return !interrupted();
  }

 private:
  bool shown_, drawn_ = false;
  Clock::time_point start_ = Clock::now(), last_;
};

Status list_tasks() {
  for (const eval::TaskInfo& task : eval::task_infos()) {
    std::printf("%-18s %s (%s)%s\n", task.name, task.sentence, task.source,
                task.needs_corpus ? "; needs --corpus" : "");
  }
  return {};
}

Result<eval::Shard> parse_shard(const std::string& text) {
  eval::Shard shard;
  int n_read = 0;
  const int found = std::sscanf(text.c_str(), "%d/%d%n", &shard.index, &shard.count, &n_read);
  if (found == 2 && static_cast<size_t>(n_read) == text.size() && shard.count >= 1 && shard.count <= 4096 &&
      shard.index >= 0 && shard.index < shard.count) {
    return shard;
  }
  return invalid_argument("--shard \"%s\", want i/n with 0 <= i < n <= 4096", text.c_str());
}

Result<eval::Grid> make_grid(const EvalFlags& flags) {
  eval::Grid grid;
  for (const std::string& name : flags.tasks) {
    VESTIGE_ASSIGN(grid.tasks.emplace_back(), eval::find_task(name));
  }
  grid.lengths = flags.lengths;
  grid.n_trials = flags.n_trials;
  grid.seed = flags.seed;
  grid.ratios = flags.ratios;
  grid.block_rows = flags.block_rows;
  grid.aware = flags.aware;
  VESTIGE_ASSIGN(grid.arms, eval::parse_arms(flags.policies, flags.ratios, flags.block_rows));
  VESTIGE_ASSIGN(grid.shard, parse_shard(flags.shard));
  return grid;
}

Status write_file(const std::string& path, const std::string& text) {
  VESTIGE_ASSIGN(const auto file, AtomicFile::create(path));
  VESTIGE_TRY(file->write(std::as_bytes(std::span(text))));
  return file->commit();
}

Status check_gates(const eval::Grid& grid, const eval::Store& store) {
  const std::vector<std::string> failed = eval::failed_gates(grid, store);
  if (failed.empty()) return {};
  std::string all;
  for (const std::string& sentence : failed) all.append(all.empty() ? "" : "; ").append(sentence);
  return mismatch("results are not shown: %s", all.c_str());
}

Status show(const EvalFlags& flags, const eval::Grid& grid, const eval::ReportHead& head, const eval::Store& store) {
  VESTIGE_TRY(check_gates(grid, store));
  VESTIGE_ASSIGN(const std::vector<eval::Cell> cells, eval::make_cells(grid, store));
  const std::string json = eval::report_json(head, cells, store.gates());
  if (!flags.out.empty()) {
    const std::filesystem::path dir(flags.out);
    VESTIGE_TRY(write_file((dir / "report.json").string(), json));
    VESTIGE_TRY(write_file((dir / "report.html").string(), eval::report_html(head, cells, store.gates())));
  }
  std::fputs(flags.json ? json.c_str() : eval::table_text(cells).c_str(), stdout);
  return {};
}

std::string command_text(const EvalFlags& flags) {
  std::string text = "vestige eval -m " + flags.engine.model_dir + " --policies " + flags.policies + " --tasks ";
  for (const std::string& task : flags.tasks) text.append(text.ends_with(' ') ? "" : ",").append(task);
  const auto add_list = [&text](const char* flag, const auto& values) {
    text += flag;
    for (size_t i = 0; i < values.size(); ++i) {
      char number[32];
      std::snprintf(number, sizeof number, "%s%g", i == 0 ? "" : ",", static_cast<double>(values[i]));
      text += number;
    }
  };
  add_list(" --ratios ", flags.ratios);
  add_list(" --lengths ", flags.lengths);
  text += " --trials " + std::to_string(flags.n_trials) + " --seed " + std::to_string(flags.seed);
  if (flags.block_rows != 4096) text += " --block-rows " + std::to_string(flags.block_rows);
  if (flags.aware) text += " --aware";
  return text + (flags.corpus.empty() ? "" : " --corpus " + flags.corpus);
}

Status run(const EvalFlags& flags) {
  if (flags.list) return list_tasks();
  if (flags.engine.model_dir.empty()) return invalid_argument("no model folder, give one with -m");
  VESTIGE_ASSIGN(const eval::Grid grid, make_grid(flags));
  std::string corpus_bytes;
  if (!flags.corpus.empty()) {
    VESTIGE_ASSIGN(corpus_bytes, read_input(flags.corpus));
  }
  VESTIGE_ASSIGN(const auto engine, Engine::create(flags.engine.options()));
  Sha256 corpus_hash;
  corpus_hash.update(corpus_bytes);
  VESTIGE_ASSIGN(const std::string corpus_identity, corpus_hash.finish());
  eval::ReportHead head{
      .model_dir = flags.engine.model_dir, .command = command_text(flags), .n_trials = flags.n_trials};
  head.identity = {.vestige_version = version(),
                   .model = engine->model().info().identity,
                   .tokenizer = engine->tokenizer().fingerprint(),
                   .corpus = flags.corpus.empty() ? "" : corpus_identity,
                   .seed = flags.seed,
                   .block_rows = flags.block_rows,
                   .aware = flags.aware};
  VESTIGE_ASSIGN(const auto store, eval::Store::open(flags.out, head.identity, grid.shard));
  VESTIGE_ASSIGN(const std::vector<int32_t> corpus, eval::encode_corpus(engine->tokenizer(), corpus_bytes));
  {
    EvalProgress progress(flags.engine.quiet);
    const auto watch = [&](double share, const std::string& what) { return progress.update(share, what); };
    VESTIGE_TRY(eval::run_grid(*engine, grid, corpus, *store, watch));
  }
  if (grid.shard.count > 1) return check_gates(grid, *store);  // the others' trials may be missing
  return show(flags, grid, head, *store);
}

}  // namespace

Command add_eval(CLI::App& root) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App* app = root.add_subcommand("eval", "Measure policies on tasks, paired with full attention");
  flags->engine.add(*app, false);
  app->add_option("--tasks", flags->tasks, "Tasks, with commas between them (--list shows all)")
      ->delimiter(',')
      ->type_name("NAMES");
  app->add_option("--policies", flags->policies,
                  "Specs name[:ratio][@setting=value,...] with commas between them; full is always there")
      ->type_name("SPECS")
      ->capture_default_str();
  app->add_option("--ratios", flags->ratios, "Of specs without a ratio")
      ->delimiter(',')
      ->type_name("R")
      ->check(CLI::Range(1.0, 1e9));
  app->add_option("--lengths", flags->lengths, "Tokens of a document")
      ->delimiter(',')
      ->type_name("N")
      ->check(CLI::Range(int64_t{64}, int64_t{1} << 30));
  app->add_option("--trials", flags->n_trials, "Of each task and length")
      ->type_name("N")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app->add_option("--seed", flags->seed, "Of all trials")->type_name("N")->capture_default_str();
  app->add_option("--block-rows", flags->block_rows, "Rows of a block")
      ->type_name("N")
      ->check(CLI::Range(64, 1 << 20))
      ->capture_default_str();
  app->add_option("--corpus", flags->corpus, "Text for filler: UTF-8, a NUL between documents")->type_name("FILE");
  app->add_option("--out", flags->out, "Folder for results and report; a later run goes on from it")->type_name("DIR");
  app->add_option("--shard", flags->shard, "Do trials i, i + n, ... only, into the same folder")->type_name("I/N");
  app->add_flag("--aware", flags->aware, "Compress with the question at hand, not before it");
  app->add_flag("--json", flags->json, "Report as JSON");
  app->add_flag("--list", flags->list, "List the tasks");
  app->footer(std::string("Examples:\n  vestige eval -m models/nano --tasks needle --policies vestige,streaming "
                          "--corpus text.txt --out run\n"
                          "  vestige eval -m models/nano --tasks records --policies vestige:8@tau=0.95,z_max=4,random "
                          "--lengths 4096,16384\n"
                          "  vestige eval --list\n\n") +
              kExitCodeHelp);
  return {app, [flags] { return run(*flags); }};
}

}  // namespace vestige::tools
