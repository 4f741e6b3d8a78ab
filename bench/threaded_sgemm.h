#pragma once

// The BLAS library's sgemm on all threads of a pool: the yardstick of dense products.

#include <cblas.h>

#include <algorithm>

#include "base/thread_pool.h"

namespace vestige {

struct SgemmShape {
  int64_t m = 0, n = 0, k = 0;
};

/// out [m, n] = x [m, k] times w [n, k] transposed, every thread an equal share of the rows.
inline void threaded_sgemm(ThreadPool& pool, const SgemmShape& shape, const float* x, const float* w, float* out) {
  const int64_t rows = (shape.m + pool.n_threads() - 1) / pool.n_threads();
  const auto n = static_cast<blasint>(shape.n), k = static_cast<blasint>(shape.k);
  pool.run((shape.m + rows - 1) / rows, [&](int64_t i, int32_t) {
    const auto m = static_cast<blasint>(std::min(rows, shape.m - i * rows));
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1.0f, x + i * rows * shape.k, k, w, k, 0.0f,
                out + i * rows * shape.n, n);
  });
}

}  // namespace vestige
