#pragma once

// Checks shared by the ops over coded rows.

#include "vestige/ops/codes.h"

namespace vestige::check {

/// @param d row width, h query heads (0 = any)
Status transform(const char* op, const RowTransform& t, int64_t d, int64_t h);
Status stages(const char* op, std::span<const CodeStage> stages, int64_t d);
Status code_set(const char* op, const CodeSet& set, int64_t d, int64_t h);

}  // namespace vestige::check
