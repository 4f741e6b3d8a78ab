#include <algorithm>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/gemv.h"
#include "backend/cpu/scratch.h"

namespace vestige::cpu {

namespace {

Status few_rows(const MatmulParams& p, const Weight& w, ThreadPool& pool) {
  const int64_t piece = gemv_piece_rows(w);
  pool.run((w.n + piece - 1) / piece, [&](int64_t i, int32_t) {
    gemv_rows({.x = p.x.as<float>(),
               .x_stride = p.x.stride[0],
               .m = p.x.dim(0),
               .w = w,
               .row_begin = i * piece,
               .row_end = std::min(w.n, (i + 1) * piece),
               .out = p.out.as<float>(),
               .out_stride = p.out.stride[0],
               .accumulate = p.accumulate});
  });
  return {};
}

Status many_rows(const MatmulParams& p, const Weight& w, ThreadPool& pool) {
  const int64_t m = p.x.dim(0), slices = (w.n + kGemmCols - 1) / kGemmCols;
  const int64_t each = line_floats(gemm_scratch_floats(w.k));
  VESTIGE_ASSIGN(float* const scratch, scratch_floats(ScratchSlot::kProduct, each * pool.n_threads()));
  pool.run((m + kGemmRows - 1) / kGemmRows * slices, [&](int64_t i, int32_t thread) {
    const int64_t row = i / slices * kGemmRows, col = i % slices * kGemmCols;
    gemm_slice({.x = p.x.as<float>() + row * p.x.stride[0],
                .x_stride = p.x.stride[0],
                .m = std::min(kGemmRows, m - row),
                .w = w,
                .col_begin = col,
                .col_end = std::min(w.n, col + kGemmCols),
                .out = p.out.as<float>() + row * p.out.stride[0] + col,
                .out_stride = p.out.stride[0],
                .accumulate = p.accumulate,
                .scratch = scratch + each * thread});
  });
  return {};
}

}  // namespace

Status matmul(const MatmulParams& p, Stream& stream) {
  if (p.out.n_elements() == 0) return {};
  const Weight w = Weight::of(p.w, p.scale);
  const bool few = p.x.dim(0) <= MatmulParams::kGemvRows;
  return few ? few_rows(p, w, *stream.pool()) : many_rows(p, w, *stream.pool());
}

}  // namespace vestige::cpu
