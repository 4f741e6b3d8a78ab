#pragma once

// Attention of one arm against full attention, query by query.

#include "eval/reading.h"
#include "eval/task.h"

namespace vestige::eval {

/// Both contexts stand at the end of the trial's document. `reading` holds the rows of document and segments and the
/// queries of the segments' tokens; they are given to both, so that differences do not add up from layer to layer.
/// Numbers over layers, steps and heads: relative output error, omitted softmax mass, their certificates, violations.
Result<Numbers> measure_fidelity(Context& arm, Context& full, const Reading& reading, Stream& stream);

}  // namespace vestige::eval
