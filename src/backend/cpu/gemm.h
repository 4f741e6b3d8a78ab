#pragma once

// Many rows of x against a slice of a weight, on the calling thread: the compute-bound dense product. Our own
// kernel, because no BLAS here keeps the promise on bits on every CPU (docs/blas.md has the measurement).

#include "backend/cpu/weight.h"

namespace vestige::cpu {

/// Rows of w in one piece of a threaded product, and rows of x: a packed slice serves 20 blocks of 12 rows, so
/// that packing costs about 3 %. Bits depend on neither.
inline constexpr int64_t kGemmCols = 64;
inline constexpr int64_t kGemmRows = 240;

struct GemmParams {
  const float* x = nullptr;
  int64_t x_stride = 0;
  int64_t m = 0;  ///< any
  Weight w;
  int64_t col_begin = 0, col_end = 0;  ///< rows of w
  float* out = nullptr;                ///< out[i, j] at out + i * out_stride + j, j counted from col_begin
  int64_t out_stride = 0;
  bool accumulate = false;
  float* scratch = nullptr;  ///< gemm_scratch_floats(w.k), 64-byte aligned
};

int64_t gemm_scratch_floats(int64_t k);

/// out[i, j] is one chain of fused multiply-adds over k in order (+ out[i, j] at the end): its bits depend on x[i],
/// w[j] and k alone.
void gemm_slice(const GemmParams& p);

}  // namespace vestige::cpu
