#pragma once

// The ops of the "cpu" backend, one function each, named after the op.

#include "backend/backend.h"

namespace vestige::cpu {

#define VESTIGE_DECLARE_OP(name, Params) Status name(const Params& params, Stream& stream);
VESTIGE_OPS(VESTIGE_DECLARE_OP)
#undef VESTIGE_DECLARE_OP

const OpTable& op_table();

}  // namespace vestige::cpu
