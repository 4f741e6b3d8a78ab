#include "eval/cells.h"

#include <map>

namespace vestige::eval {

namespace {

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

/// Outcomes by task, length and arm, then by trial.
using Table = std::map<std::tuple<std::string, int64_t, std::string>, std::map<int32_t, const Outcome*>>;

Table tabulate(const Grid& grid, const Store& store) {
  Table table;
  for (const Outcome& o : store.outcomes()) {
    if (o.trial < grid.n_trials) table[{o.task, o.length, o.arm}][o.trial] = &o;
  }
  return table;
}

bool right(Measure measure, const Outcome& outcome, const Outcome& full) {
  return measure == Measure::kIntact ? outcome.nats - full.nats < kIntactNats : outcome.exact;
}

struct Sums {
  std::vector<double> deltas;
  double nats = 0;
  int64_t n_answer = 0, n_bytes = 0;
};

void add_trial(const Outcome& outcome, const Outcome& full, Cell* cell, Sums* sums) {
  ++cell->n_trials;
  const bool text = cell->measure == Measure::kText;
  if (!text && !full.exact) return;  // the baseline must pass
  ++cell->n_counted;
  const bool solved = text || right(cell->measure, outcome, full);
  cell->n_right += solved ? 1 : 0;
  const auto n = static_cast<double>(text ? std::max<int64_t>(outcome.n_answer, 1) : 1);
  sums->deltas.push_back((outcome.nats - full.nats) / n);
  sums->nats += outcome.nats;
  sums->n_answer += outcome.n_answer;
  sums->n_bytes += outcome.n_answer_bytes;
  cell->record.add(outcome.record);
  cell->full_attend_us += full.record.attend_us;
}

void finish(Cell* cell, const Sums& sums) {
  cell->rate = wilson_95(cell->n_right, cell->n_counted);
  cell->sign_p = sign_test(cell->n_counted - cell->n_right, 0);  // full is right in every counted trial
  cell->delta_nats = mean_95(sums.deltas);
  cell->nats = share(sums.nats, static_cast<double>(sums.n_answer));
  cell->bits_per_byte = share(sums.nats / 0.6931471805599453, static_cast<double>(sums.n_bytes));
}

void add_numbers(const std::map<int32_t, const Outcome*>& trials, Cell* cell) {
  for (const auto& [trial, outcome] : trials) {
    ++cell->n_trials;
    for (const auto& [name, value] : outcome->numbers) cell->numbers[name] += value;
  }
  for (auto& [name, value] : cell->numbers) value /= static_cast<double>(cell->n_trials);
}

}  // namespace

double Cell::per_step(double sum) const { return share(sum, static_cast<double>(record.n_steps)); }
double Cell::archive_bytes_per_row() const {
  return share(static_cast<double>(record.archive_bytes), static_cast<double>(record.n_archived));
}
double Cell::read_share() const {
  return share(static_cast<double>(record.read_bytes), static_cast<double>(record.full_bytes));
}
double Cell::attend_share() const { return share(record.attend_us, full_attend_us); }
double Cell::overflow_share() const { return per_step(record.n_overflowed); }

Result<std::vector<Cell>> make_cells(const Grid& grid, const Store& store) {
  const Table table = tabulate(grid, store);
  std::vector<Cell> cells;
  for (const TaskInfo& task : grid.tasks) {
    VESTIGE_ASSIGN(const std::vector<Arm> arms, task_arms(grid, task));
    for (const int64_t length : grid.lengths) {
      const auto full = table.find({task.name, length, "full"});
      if (full == table.end()) continue;
      for (const Arm& arm : arms) {
        const auto found = table.find({task.name, length, arm.name});
        if (found == table.end()) continue;
        Cell cell{
            .task = task.name, .arm = arm.name, .measure = task.measure, .length = length, .ratio = arm.policy.ratio};
        Sums sums;
        if (has_numbers(task.measure)) add_numbers(found->second, &cell);
        for (const auto& [trial, outcome] : found->second) {
          const auto pair = full->second.find(trial);
          if (!has_numbers(task.measure) && pair != full->second.end()) {
            add_trial(*outcome, *pair->second, &cell, &sums);
          }
        }
        finish(&cell, sums);
        cells.push_back(std::move(cell));
      }
    }
  }
  return cells;
}

}  // namespace vestige::eval
