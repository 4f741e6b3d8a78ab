#pragma once

#include "eval/task.h"

namespace vestige::eval {

/// One look-up among look-alike records: also what fidelity_records measures.
Result<Trial> make_records(TrialSource& source);

}  // namespace vestige::eval
