#pragma once

// Cells as people and programs read them.

#include <string>
#include <vector>

#include "eval/cells.h"

namespace vestige::eval {

/// Lines for a terminal: one table a task.
std::string table_text(const std::vector<Cell>& cells);

/// What stands above the tables: model, seed, trials, corpus.
struct ReportHead {
  std::string model_dir = {}, command = {};
  RunIdentity identity = {};
  int32_t n_trials = 0;
};

/// {"run", "gates", "cells"}: schema in docs/eval.md.
std::string report_json(const ReportHead& head, const std::vector<Cell>& cells, const std::vector<GateOutcome>& gates);

/// One page that needs nothing else: tables, rate against ratio and length, bytes against quality.
std::string report_html(const ReportHead& head, const std::vector<Cell>& cells, const std::vector<GateOutcome>& gates);

}  // namespace vestige::eval
