#pragma once

// Scores of many queries against stored rows, by the dense product.

#include <cstdint>

#include "backend/cpu/gemm.h"
#include "vestige/layout.h"

namespace vestige::cpu {

struct QueryRows {
  const float* q = nullptr;  ///< n rows of d_row floats
  int64_t stride = 0;        ///< floats from one to the next
  int64_t n = 0;
};

struct ScoreOut {
  float* scores = nullptr;  ///< [n, end - begin]
  int64_t stride = 0;
  float* pack = nullptr;  ///< gemm_scratch_floats(d_row)
};

/// scores[i, u - begin] = q_i . row_u for rows [begin, end), unscaled. Bits of one score depend on its query and row
/// alone (gemm.h), so callers may cut queries and rows as they like.
void score_rows_of(const QueryRows& queries, const RowPages& rows, int64_t begin, int64_t end, const ScoreOut& out);

}  // namespace vestige::cpu
