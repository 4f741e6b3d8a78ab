#include <algorithm>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/gemv.h"
#include "backend/cpu/tiles.h"

namespace vestige::cpu {

namespace {

bool few(const MatmulParams& p) { return p.x.dim(0) <= MatmulParams::kGemvRows; }

// Weights of one piece of a product with few rows of x, at most: 80 us of reading, so that threads which the system
// slows down still share evenly. At least: what takes a microsecond wakes no worker.
constexpr int64_t kMostBytes = int64_t{1} << 21, kLeastBytes = 8192;

int64_t row_bytes(const MatmulParams& p) { return std::max<int64_t>(1, Weight::of(p.w, p.scale).row_bytes()); }
int64_t weight_bytes(const MatmulParams& p) { return p.out.n_elements() == 0 ? 0 : row_bytes(p) * p.w.dim(0); }

/// The row of w at which a cut after n_bytes of it lies: whole groups of eight.
int64_t row_at(const MatmulParams& p, int64_t n_bytes) {
  return std::min(p.w.dim(0), ceil_div(std::max<int64_t>(0, n_bytes), 8 * row_bytes(p)) * 8);
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

int64_t many_pieces(const MatmulParams& p) {
  if (p.out.n_elements() == 0 || few(p)) return 0;
  return ceil_div(p.x.dim(0), kGemmRows) * ceil_div(p.w.dim(0), kGemmCols);
}

/// Bytes [begin, end) of the weights of all products with few rows, laid end to end.
void few_bytes(const MatmulListParams& p, int64_t begin, int64_t end) {
  for (const MatmulParams& one : p.products) {
    if (!few(one)) continue;
    const int64_t first = row_at(one, begin), last = row_at(one, end);
    if (first < last) few_rows(one, first, last);
    begin -= weight_bytes(one);
    end -= weight_bytes(one);
  }
}

/// Cuts of n_bytes of weights: a stretch a thread, and where that is all, a sixteenth in kShared pieces for whoever is
/// done first.
struct Cuts {
  static constexpr int64_t kShared = 4;
  int64_t n_bytes, n, n_stretches, shared = 0;

  Cuts(int64_t n_bytes_in, int64_t n_threads) : n_bytes(n_bytes_in) {
    n = n_stretches = ceil_div(n_bytes, std::clamp(ceil_div(n_bytes, n_threads), kLeastBytes, kMostBytes));
    if (n_threads == 1 || n != n_threads) return;
    n += kShared;
    shared = n_bytes / 16;
  }
  int64_t at(int64_t i) const {
    if (i <= n_stretches) return (n_bytes - shared) * i / n_stretches;
    return n_bytes - shared + shared * (i - n_stretches) / kShared;
  }
};

}  // namespace

// Where rows of w are cut into pieces does not reach the bits of any element. Products with few rows are bound by
// reading w, so each thread gets one long stretch of it: a single stream, and in every step mostly the same pages, half
// of a small model's with two threads, which the TLB can hold where it cannot hold all.
Status matmul_list(const MatmulListParams& p, Stream& stream) {
  ThreadPool& pool = *stream.pool();
  int64_t n_bytes = 0, n_many = 0, each = 0;
  for (const MatmulParams& one : p.products) {
    if (few(one)) {
      n_bytes += weight_bytes(one);
    } else {
      n_many += many_pieces(one);
      each = std::max(each, line_floats(gemm_scratch_floats(one.x.dim(1))));
    }
  }
  float* scratch = nullptr;
  if (each > 0) {
    VESTIGE_ASSIGN(scratch, scratch_floats(ScratchSlot::kProduct, each * pool.n_threads()));
  }
  const Cuts cuts(n_bytes, pool.n_threads());
  pool.run(cuts.n + n_many, [&](int64_t i, int32_t thread) {
    if (i < cuts.n) return few_bytes(p, cuts.at(i), cuts.at(i + 1));
    i -= cuts.n;
    for (const MatmulParams& one : p.products) {
      const int64_t n = many_pieces(one);
      if (i < n) return many_rows(one, i, scratch + each * thread);
      i -= n;
    }
  });
  return {};
}

Status matmul(const MatmulParams& p, Stream& stream) { return matmul_list({std::span(&p, 1)}, stream); }

}  // namespace vestige::cpu
