#pragma once

// Float32 matrix product on the calling thread, through the BLAS library.

#include <cstdint>

namespace vestige::cpu {

struct MatrixRef {
  const float* data = nullptr;
  int64_t stride = 0;       ///< floats from one stored row to the next
  bool transposed = false;  ///< the stored rows are the columns
};

struct SgemmParams {
  int64_t m = 0, n = 0, k = 0;
  MatrixRef a, b;  ///< [m, k] and [k, n]
  float* out = nullptr;
  int64_t out_stride = 0;
  float alpha = 1.0f, beta = 0.0f;
};

/// out = alpha a b + beta out. Bits of an element depend on the shape of the call, its row of a, its column of b and,
/// with OpenBLAS's Haswell and Zen kernels, its place in the tile (docs/blas.md): a caller that promises bits gives a
/// row the same place in a call of the same shape every time.
void sgemm(const SgemmParams& p);

struct DsyrkParams {
  int64_t n = 0, k = 0;
  const double* a = nullptr;  ///< [k, n]
  int64_t a_stride = 0;
  double* out = nullptr;  ///< [n, n]
  int64_t out_stride = 0;
};

/// Lower triangle of out += a^T a.
void add_dsyrk(const DsyrkParams& p);

}  // namespace vestige::cpu
