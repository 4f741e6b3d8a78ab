#pragma once

// Rows of a stored weight, widened to float32 (f8e4m3 with its scales).

#include "backend/cpu/weight.h"

namespace vestige::cpu {

/// dst[i, :] = w[row_begin + i, :] for i in [0, n_rows).
void widen_rows(const Weight& w, int64_t row_begin, int64_t n_rows, float* dst, int64_t dst_stride);

}  // namespace vestige::cpu
