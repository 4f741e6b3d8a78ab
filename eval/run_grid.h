#pragma once

// The grid: every task, length and trial is read once and scored under every arm.

#include <functional>
#include <string>
#include <vector>

#include "eval/arm.h"
#include "eval/store.h"
#include "eval/task.h"

namespace vestige::eval {

struct Grid {
  std::vector<TaskInfo> tasks;
  std::vector<int64_t> lengths;
  int32_t n_trials = 24;
  uint64_t seed = 0;
  std::vector<Arm> arms;       ///< `full` first
  std::vector<double> ratios;  ///< of tasks that bring policies of their own
  int32_t block_rows = 4096;
  /// The question of a trial, but for its last token, is part of the document that is read and compressed, as in papers
  /// that compress with the question at hand. Gates look at the trials as they are otherwise.
  bool aware = false;
  Shard shard;
};

/// The arms of one task: the grid's, or `full` and the task's own at the grid's ratios.
Result<std::vector<Arm>> task_arms(const Grid& grid, const TaskInfo& task);

/// Called now and then with the share of the work that is done, in [0, 1], and what is being done; false = stop.
using WatchFn = std::function<bool(double share, const std::string& what)>;

/// Does what the store does not hold yet: the gates of each length first, then the trials of this shard.
/// @return Cancelled; what was finished is in the store. Failed gates are no error here: see failed_gates().
Status run_grid(Engine& engine, const Grid& grid, std::span<const int32_t> corpus, Store& store, const WatchFn& watch);

/// The gates of this grid that did not pass, one sentence each; empty = the results may be shown.
std::vector<std::string> failed_gates(const Grid& grid, const Store& store);

}  // namespace vestige::eval
