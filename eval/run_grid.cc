#include "eval/run_grid.h"

#include <algorithm>
#include <cstdio>

#include "eval/coverage.h"
#include "eval/fidelity.h"
#include "eval/gates.h"

namespace vestige::eval {

namespace {

constexpr int32_t kLeakageTrials = 3;

bool is_rate(const TaskInfo& task) { return task.measure == Measure::kIntact || task.measure == Measure::kExact; }

class Runner {
 public:
  Runner(Engine& engine, const Grid& grid, std::span<const int32_t> corpus, Store& store, const WatchFn& watch)
      : engine_(engine), grid_(grid), corpus_(corpus), store_(store), watch_(watch) {}

  Status run();

 private:
  struct Unit {
    size_t task;
    int64_t length;
    int32_t trial;
  };
  Result<Trial> make_trial(const TaskInfo& task, int64_t length, int32_t trial) const;
  Status list_units();
  Status run_gates(int64_t length);
  Status run_leakage(int64_t length);
  Status run_unit(const Unit& unit);
  Status examine(const TaskInfo& task, const Unit& unit);
  Result<Outcome> run_arm(const TaskInfo& task, const Trial& trial, const Context& base, const Reading* reading,
                          const Arm& arm);
  std::vector<Arm> pending_arms(const Unit& unit) const;
  Status record_gate(Result<GateOutcome> gate, int64_t length, const std::string& subject);
  bool passed(const char* gate, int64_t length, const std::string& subject) const;
  bool stopped() { return watch_ && !watch_(done_ / std::max(total_, 1.0), what_); }
  ProgressFn progress() {
    return [this](int64_t, int64_t) { return !stopped(); };
  }
  void say(const TaskInfo& task, int64_t length, int32_t trial, const std::string& arm);

  Engine& engine_;
  const Grid& grid_;
  std::span<const int32_t> corpus_;
  Store& store_;
  const WatchFn& watch_;
  std::vector<std::vector<Arm>> arms_;  ///< of each task
  std::vector<Unit> units_;
  double done_ = 0, total_ = 0;  ///< in tokens, roughly
  std::string what_;
};

Result<Trial> Runner::make_trial(const TaskInfo& task, int64_t length, int32_t trial) const {
  TrialSource source(engine_.tokenizer(), corpus_, engine_.model().info().max_tokens,
                     {.task = task.name, .length = length, .seed = grid_.seed, .trial = trial});
  auto made = task.make(source);
  if (!made.ok()) return made.status().with_context(std::string("task ") + task.name);
  return made;
}

void Runner::say(const TaskInfo& task, int64_t length, int32_t trial, const std::string& arm) {
  what_ = std::string(task.name) + " " + std::to_string(length) + " trial " + std::to_string(trial) + " " + arm;
}

std::vector<Arm> Runner::pending_arms(const Unit& unit) const {
  std::vector<Arm> pending;
  const TaskInfo& task = grid_.tasks[unit.task];
  for (const Arm& arm : arms_[unit.task]) {
    if (!store_.has(task.name, unit.length, unit.trial, arm.name)) pending.push_back(arm);
  }
  return pending;
}

/// Moves the question into the document; its last token stays, since decoding begins with one.
Status ask_first(Trial* trial) {
  if (trial->segments.size() != 1 || trial->segments[0].prompt.empty()) {
    return invalid_argument("a task without one question, or with several, cannot be run aware");
  }
  std::vector<int32_t>& prompt = trial->segments[0].prompt;
  trial->document.insert(trial->document.end(), prompt.begin(), prompt.end() - 1);
  prompt.erase(prompt.begin(), prompt.end() - 1);
  return {};
}

Status Runner::list_units() {
  for (const TaskInfo& task : grid_.tasks) {
    VESTIGE_ASSIGN(arms_.emplace_back(), task_arms(grid_, task));
    if (task.needs_corpus && corpus_.empty()) {
      return invalid_argument("task %s takes its text from a corpus, give one with --corpus", task.name);
    }
    if (grid_.aware) {
      VESTIGE_ASSIGN(Trial probe, make_trial(task, grid_.lengths.front(), 0));
      const Status asks = ask_first(&probe);
      if (!asks.ok()) return asks.with_context(std::string("task ") + task.name);
    }
  }
  for (size_t task = 0; task < grid_.tasks.size(); ++task) {
    for (const int64_t length : grid_.lengths) {
      for (int32_t trial = grid_.shard.index; trial < grid_.n_trials; trial += grid_.shard.count) {
        const Unit unit{task, length, trial};
        if (pending_arms(unit).empty()) continue;
        units_.push_back(unit);
        total_ += static_cast<double>(length);
      }
    }
  }
  return {};
}

bool Runner::passed(const char* gate, int64_t length, const std::string& subject) const {
  const GateOutcome* known = store_.find_gate(gate, length, subject);
  return known != nullptr && known->passed;
}

Status Runner::record_gate(Result<GateOutcome> gate, int64_t length, const std::string& subject) {
  if (!gate.ok()) return gate.status();
  gate->length = length;
  gate->subject = subject;
  return store_.add(std::move(*gate));
}

/// identity and fired, on the first trial of the first task that has one arm or more untried.
Status Runner::run_gates(int64_t length) {
  for (size_t t = 0; t < grid_.tasks.size(); ++t) {
    const TaskInfo& task = grid_.tasks[t];
    std::vector<Arm> untried;
    for (const Arm& arm : arms_[t]) {
      const bool tried = passed("identity", length, arm_family(arm.name)) && passed("fired", length, arm.name);
      if (arm.policy.name != "full" && arm.policy.ratio > 1 && !tried) untried.push_back(arm);
    }
    if (untried.empty() || task.measure == Measure::kNumbers) continue;
    say(task, length, 0, "gates");
    VESTIGE_ASSIGN(const Trial trial, make_trial(task, length, 0));
    VESTIGE_ASSIGN(const auto base, read_document(engine_, trial.document, untried, progress()));
    for (const Arm& arm : untried) {
      const std::string family = arm_family(arm.name);  // at ratio 1 its members are the same
      if (!passed("identity", length, family)) {
        VESTIGE_TRY(record_gate(identity_gate(engine_, *base, trial, arm), length, family));
      }
      VESTIGE_TRY(record_gate(fired_gate(engine_, *base, trial, arm), length, arm.name));
      if (stopped()) return cancelled("interrupted");
    }
  }
  return {};
}

/// On the task whose answer is hardest to guess, at whole blocks: what stands in the tail is attended for good reason.
Status Runner::run_leakage(int64_t length) {
  const TaskInfo* task = nullptr;
  for (const TaskInfo& candidate : grid_.tasks) {
    if (is_rate(candidate) && task == nullptr) task = &candidate;
  }
  if (task == nullptr || passed("leakage", length, task->name)) return {};
  const int64_t whole = length / grid_.block_rows * grid_.block_rows;
  if (whole == 0) return {};  // "fired" fails then
  GateOutcome all{.gate = "leakage", .passed = true};
  for (int32_t i = 0; i < kLeakageTrials; ++i) {
    say(*task, length, i, "leakage");
    VESTIGE_ASSIGN(Trial trial, make_trial(*task, whole, i));
    const size_t n = trial.document.size();
    trial.document.resize(n / static_cast<size_t>(grid_.block_rows) * static_cast<size_t>(grid_.block_rows));
    VESTIGE_ASSIGN(const auto base, read_document(engine_, trial.document, std::span(arms_[0]).first(1), progress()));
    VESTIGE_ASSIGN(const GateOutcome gate, leakage_gate(engine_, *base, trial, [this] { return stopped(); }));
    all.passed = all.passed && gate.passed;
    all.detail.append(i == 0 ? "" : "; ").append(gate.detail);
  }
  return record_gate(all, length, task->name);
}

Status Runner::examine(const TaskInfo& task, const Unit& unit) {
  say(task, unit.length, unit.trial, "");
  VESTIGE_ASSIGN(const Trial trial, make_trial(task, unit.length, unit.trial));
  Outcome outcome{.task = task.name, .length = unit.length, .trial = unit.trial, .arm = "full"};
  VESTIGE_ASSIGN(outcome.numbers, task.examine(engine_, trial, progress()));
  return store_.add(std::move(outcome));
}

Result<Outcome> Runner::run_arm(const TaskInfo& task, const Trial& trial, const Context& base, const Reading* reading,
                                const Arm& arm) {
  VESTIGE_ASSIGN(const auto context, fork_arm(engine_, base, trial, arm, progress()));
  if (!compares_attention(task.measure)) {
    return score_trial(engine_, *context, trial, [this] { return stopped(); });
  }
  Outcome outcome;
  if (task.measure == Measure::kCoverage) {
    VESTIGE_ASSIGN(outcome.numbers, measure_coverage(*context, *reading, engine_.stream()));
    return outcome;
  }
  VESTIGE_ASSIGN(const auto full, fork_arm(engine_, base, trial, grid_.arms[0], progress()));
  VESTIGE_ASSIGN(outcome.numbers, measure_fidelity(*context, *full, *reading, engine_.stream()));
  return outcome;
}

Status Runner::run_unit(const Unit& unit) {
  const TaskInfo& task = grid_.tasks[unit.task];
  const std::vector<Arm> pending = pending_arms(unit);
  if (task.measure == Measure::kNumbers) return examine(task, unit);
  say(task, unit.length, unit.trial, "reading");
  VESTIGE_ASSIGN(Trial trial, make_trial(task, unit.length, unit.trial));
  if (grid_.aware) VESTIGE_TRY(ask_first(&trial));
  VESTIGE_ASSIGN(const auto base, read_document(engine_, trial.document, pending, progress()));
  std::optional<Reading> reading;
  if (compares_attention(task.measure)) {
    const auto n = static_cast<int64_t>(whole_text(trial).size() - trial.document.size());
    VESTIGE_ASSIGN(reading, read_rows(engine_, whole_text(trial), n, progress()));
  }
  for (const Arm& arm : pending) {
    say(task, unit.length, unit.trial, arm.name);
    VESTIGE_ASSIGN(Outcome outcome, run_arm(task, trial, *base, reading ? &*reading : nullptr, arm));
    outcome.task = task.name;
    outcome.length = unit.length;
    outcome.trial = unit.trial;
    outcome.arm = arm.name;
    VESTIGE_TRY(store_.add(std::move(outcome)));
    done_ += static_cast<double>(unit.length) / static_cast<double>(pending.size());
  }
  return {};
}

Status Runner::run() {
  VESTIGE_TRY(list_units());
  for (const int64_t length : grid_.lengths) {
    const bool wanted = std::any_of(units_.begin(), units_.end(), [&](const Unit& u) { return u.length == length; });
    if (!wanted) continue;
    VESTIGE_TRY(run_gates(length));
    VESTIGE_TRY(run_leakage(length));
  }
  if (!failed_gates(grid_, store_).empty()) return {};  // hours of trials would end in a refusal
  for (const Unit& unit : units_) VESTIGE_TRY(run_unit(unit));
  return {};
}

}  // namespace

Result<std::vector<Arm>> task_arms(const Grid& grid, const TaskInfo& task) {
  if (task.measure == Measure::kNumbers) return std::vector<Arm>{grid.arms[0]};
  if (task.policies.empty()) return grid.arms;
  std::string list;
  for (const char* spec : task.policies) list.append(list.empty() ? "" : ",").append(spec);
  return parse_arms(list, grid.ratios, grid.block_rows);
}

Status run_grid(Engine& engine, const Grid& grid, std::span<const int32_t> corpus, Store& store, const WatchFn& watch) {
  return Runner(engine, grid, corpus, store, watch).run();
}

std::vector<std::string> failed_gates(const Grid& grid, const Store& store) {
  std::vector<std::string> failed;
  for (const GateOutcome& gate : store.gates()) {
    const bool ours = std::find(grid.lengths.begin(), grid.lengths.end(), gate.length) != grid.lengths.end();
    if (gate.passed || !ours) continue;
    failed.push_back("gate " + gate.gate + ", length " + std::to_string(gate.length) + ", " + gate.subject + ": " +
                     gate.detail);
  }
  return failed;
}

}  // namespace vestige::eval
