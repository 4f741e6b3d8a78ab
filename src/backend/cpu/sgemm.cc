#include "backend/cpu/sgemm.h"

#include <cblas.h>

#include <mutex>

namespace vestige::cpu {

namespace {

void set_one_thread() {
  static std::once_flag once;
  std::call_once(once, [] { openblas_set_num_threads(1); });  // our pool owns the cores
}

CBLAS_TRANSPOSE order(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

}  // namespace

void sgemm(const SgemmParams& p) {
  set_one_thread();
  cblas_sgemm(CblasRowMajor, order(p.a.transposed), order(p.b.transposed), static_cast<blasint>(p.m),
              static_cast<blasint>(p.n), static_cast<blasint>(p.k), p.alpha, p.a.data, static_cast<blasint>(p.a.stride),
              p.b.data, static_cast<blasint>(p.b.stride), p.beta, p.out, static_cast<blasint>(p.out_stride));
}

void add_dsyrk(const DsyrkParams& p) {
  set_one_thread();
  cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, static_cast<blasint>(p.n), static_cast<blasint>(p.k), 1.0, p.a,
              static_cast<blasint>(p.a_stride), 1.0, p.out, static_cast<blasint>(p.out_stride));
}

}  // namespace vestige::cpu
