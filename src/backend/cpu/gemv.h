#pragma once

// Few rows of x against rows of a weight, read once: the bandwidth-bound dense product.

#include <algorithm>

#include "backend/cpu/weight.h"
#include "base/thread_pool.h"

namespace vestige::cpu {

struct GemvParams {
  const float* x = nullptr;
  int64_t x_stride = 0;
  int64_t m = 0;
  Weight w;
  int64_t row_begin = 0, row_end = 0;  ///< rows of w
  float* out = nullptr;                ///< out[i, j] at out + i * out_stride + j, j counted from row 0 of w
  int64_t out_stride = 0;
  bool accumulate = false;
};

/// On the calling thread. The bits of out[i, j] depend on x[i], w[j] and k alone.
void gemv_rows(const GemvParams& p);

/// Rows of w in one piece of a threaded product: 32 KB are more than enough to forget the cost of handing them out;
/// whole groups of eight.
inline int64_t gemv_piece_rows(const Weight& w) {
  return std::max<int64_t>(8, 32768 / std::max<int64_t>(1, w.row_bytes()) / 8 * 8);
}

}  // namespace vestige::cpu
