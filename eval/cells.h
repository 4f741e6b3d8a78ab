#pragma once

// Outcomes of one task, length and arm added up, paired with `full` trial by trial.

#include <string>
#include <vector>

#include "eval/run_grid.h"
#include "eval/statistics.h"

namespace vestige::eval {

struct Cell {
  std::string task = {}, arm = {};
  Measure measure = Measure::kExact;
  int64_t length = 0;
  double ratio = 1;
  int64_t n_trials = 0;   ///< scored under this arm and under full
  int64_t n_counted = 0;  ///< of those, trials that full attention solves; every trial where nothing is to be solved
  int64_t n_right = 0;    ///< of the counted ones, by the task's measure
  Interval rate = {};     ///< Wilson 95%
  double sign_p = 1;      ///< sign test of the trials in which this arm and full differ
  Mean delta_nats = {};   ///< more than full: of an answer, or of a token (kText)
  double nats = 0;        ///< kText: mean a token
  double bits_per_byte = 0;
  StepRecord record = {};     ///< of the counted trials' answer steps
  double full_attend_us = 0;  ///< of `full` in the same trials
  Numbers numbers = {};       ///< kNumbers: means over trials

  double rate_value() const {
    return n_counted > 0 ? static_cast<double>(n_right) / static_cast<double>(n_counted) : 0;
  }
  /// A sum of the record as a mean over layer-steps.
  double per_step(int64_t sum) const { return per_step(static_cast<double>(sum)); }
  double per_step(double sum) const;
  /// Index bytes and exact rows read, per archived row and step.
  double archive_bytes_per_row() const;
  double read_share() const;      ///< of the bytes that full attention reads
  double attend_share() const;    ///< of full attention's time, same trials
  double overflow_share() const;  ///< of layer-steps
};

/// Every cell of the grid that has outcomes, in grid order.
Result<std::vector<Cell>> make_cells(const Grid& grid, const Store& store);

}  // namespace vestige::eval
