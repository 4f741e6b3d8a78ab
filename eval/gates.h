#pragma once

// What must hold before a figure is worth printing (the paper's Table 9). Outcomes go to the store; a gate that passed
// there before is not tried again.

#include "eval/score.h"
#include "eval/store.h"

namespace vestige::eval {

/// identity: at ratio 1 each policy's logits are bit-equal to those of `full`.
Result<GateOutcome> identity_gate(Engine& engine, const Context& base, const Trial& trial, const Arm& arm);

/// fired: in every layer fewer rows are kept than closed, and an index, if there is one, is scanned.
Result<GateOutcome> fired_gate(Engine& engine, const Context& base, const Trial& trial, const Arm& arm);

/// leakage: with the cache destroyed (four sinks and the last row left) the answer must be gone.
/// @param base has read a document of whole blocks
Result<GateOutcome> leakage_gate(Engine& engine, const Context& base, const Trial& trial, const StopFn& stop);

}  // namespace vestige::eval
