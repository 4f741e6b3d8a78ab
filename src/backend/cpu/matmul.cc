#include <algorithm>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/gemv.h"
#include "backend/cpu/scratch.h"

namespace vestige::cpu {

namespace {

bool few(const MatmulParams& p) { return p.x.dim(0) <= MatmulParams::kGemvRows; }

int64_t weight_bytes(const MatmulParams& p) {
  return p.out.n_elements() == 0 ? 0 : Weight::of(p.w, p.scale).row_bytes() * p.w.dim(0);
}

void few_rows(const MatmulParams& p, int64_t begin, int64_t end) {
  gemv_rows({.x = p.x.as<float>(),
             .x_stride = p.x.stride[0],
             .m = p.x.dim(0),
             .w = Weight::of(p.w, p.scale),
             .row_begin = begin,
             .row_end = end,
             .out = p.out.as<float>(),
             .out_stride = p.out.stride[0],
             .accumulate = p.accumulate});
}

void many_rows(const MatmulParams& p, int64_t piece, float* scratch) {
  const Weight w = Weight::of(p.w, p.scale);
  const int64_t slices = (w.n + kGemmCols - 1) / kGemmCols;
  const int64_t row = piece / slices * kGemmRows, col = piece % slices * kGemmCols;
  gemm_slice({.x = p.x.as<float>() + row * p.x.stride[0],
              .x_stride = p.x.stride[0],
              .m = std::min(kGemmRows, p.x.dim(0) - row),
              .w = w,
              .col_begin = col,
              .col_end = std::min(w.n, col + kGemmCols),
              .out = p.out.as<float>() + row * p.out.stride[0] + col,
              .out_stride = p.out.stride[0],
              .accumulate = p.accumulate,
              .scratch = scratch});
}

/// The pieces of one product. How many rows of w a piece has does not reach the bits of any element.
struct Pieces {
  int64_t n = 0, rows = 0;

  Pieces(const MatmulParams& p, int64_t piece_bytes) {
    if (p.out.n_elements() == 0) return;
    if (few(p)) {
      rows = gemv_piece_rows(Weight::of(p.w, p.scale), piece_bytes);
      n = (p.w.dim(0) + rows - 1) / rows;
    } else {
      n = (p.x.dim(0) + kGemmRows - 1) / kGemmRows * ((p.w.dim(0) + kGemmCols - 1) / kGemmCols);
    }
  }
};

}  // namespace

Status matmul_list(const MatmulListParams& p, Stream& stream) {
  ThreadPool& pool = *stream.pool();
  int64_t n_bytes = 0, n_pieces = 0, each = 0;
  for (const MatmulParams& one : p.products) {
    n_bytes += weight_bytes(one);
    if (!few(one)) each = std::max(each, line_floats(gemm_scratch_floats(one.x.dim(1))));
  }
  float* scratch = nullptr;
  if (each > 0) {
    VESTIGE_ASSIGN(scratch, scratch_floats(ScratchSlot::kProduct, each * pool.n_threads()));
  }
  const int64_t piece_bytes = gemv_piece_bytes(n_bytes, pool.n_threads());
  for (const MatmulParams& one : p.products) n_pieces += Pieces(one, piece_bytes).n;
  pool.run(n_pieces, [&](int64_t i, int32_t thread) {
    for (const MatmulParams& one : p.products) {
      const Pieces pieces(one, piece_bytes);
      if (i >= pieces.n) {
        i -= pieces.n;
      } else if (few(one)) {
        return few_rows(one, i * pieces.rows, std::min(one.w.dim(0), (i + 1) * pieces.rows));
      } else {
        return many_rows(one, i, scratch + each * thread);
      }
    }
  });
  return {};
}

Status matmul(const MatmulParams& p, Stream& stream) { return matmul_list({std::span(&p, 1)}, stream); }

}  // namespace vestige::cpu
