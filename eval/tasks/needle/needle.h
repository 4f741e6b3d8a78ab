#pragma once

#include "eval/task.h"

namespace vestige::eval {

/// The paper's needle trial: also what branch_width and rank_sweep measure.
Result<Trial> make_needle(TrialSource& source);

}  // namespace vestige::eval
