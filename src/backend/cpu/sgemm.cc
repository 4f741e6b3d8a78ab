#include "backend/cpu/sgemm.h"

#include <cblas.h>

#include "backend/ops/blas_threads.h"

namespace vestige::cpu {

namespace {

CBLAS_TRANSPOSE order(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

}  // namespace

void sgemm(const SgemmParams& p) {
  use_one_blas_thread();
  cblas_sgemm(CblasRowMajor, order(p.a.transposed), order(p.b.transposed), static_cast<blasint>(p.m),
              static_cast<blasint>(p.n), static_cast<blasint>(p.k), p.alpha, p.a.data, static_cast<blasint>(p.a.stride),
              p.b.data, static_cast<blasint>(p.b.stride), p.beta, p.out, static_cast<blasint>(p.out_stride));
}

void add_dsyrk(const DsyrkParams& p) {
  use_one_blas_thread();
  cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, static_cast<blasint>(p.n), static_cast<blasint>(p.k), 1.0, p.a,
              static_cast<blasint>(p.a_stride), 1.0, p.out, static_cast<blasint>(p.out_stride));
}

}  // namespace vestige::cpu
