#include <algorithm>
#include <new>
#include <vector>

#include "backend/cpu/activation.h"
#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/gemv.h"
#include "backend/cpu/scratch.h"
#include "base/thread_pool.h"

namespace vestige::cpu {

namespace {

Weight gate_of(const ExpertWeights& w) { return Weight::of(w.gate, w.gate_scale); }
Weight up_of(const ExpertWeights& w) { return Weight::of(w.up, w.up_scale); }
Weight down_of(const ExpertWeights& w) { return Weight::of(w.down, w.down_scale); }

// One piece of a product over tokens grouped by expert: up to kGemmRows entries of `order` and one slice of columns.
struct Piece {
  int32_t expert;
  int64_t first, count, col;
};

// (token, choice) pairs i * top_k + j in order of expert, then of pair.
struct Groups {
  std::vector<int32_t> order;
  std::vector<int64_t> start;  // [experts + 1]
};

Groups group_by_expert(const int32_t* ids, int64_t n_pairs, size_t n_experts) {
  Groups g{std::vector<int32_t>(static_cast<size_t>(n_pairs)), std::vector<int64_t>(n_experts + 1)};
  for (int64_t i = 0; i < n_pairs; ++i) ++g.start[static_cast<size_t>(ids[i]) + 1];
  for (size_t e = 0; e < n_experts; ++e) g.start[e + 1] += g.start[e];
  std::vector<int64_t> next(g.start.begin(), g.start.end() - 1);
  for (int64_t i = 0; i < n_pairs; ++i) {
    g.order[static_cast<size_t>(next[static_cast<size_t>(ids[i])]++)] = static_cast<int32_t>(i);
  }
  return g;
}

std::vector<Piece> pieces_of(const Groups& g, int64_t n_cols) {
  std::vector<Piece> pieces;
  for (size_t e = 0; e + 1 < g.start.size(); ++e) {
    for (int64_t first = g.start[e]; first < g.start[e + 1]; first += kGemmRows) {
      const int64_t count = std::min(kGemmRows, g.start[e + 1] - first);
      for (int64_t col = 0; col < n_cols; col += kGemmCols) {
        pieces.push_back({static_cast<int32_t>(e), first, count, col});
      }
    }
  }
  return pieces;
}

// out[i] += sum_j weights[i, j] * y(i, j), the order of j fixed; slot(pair) is the row of y that holds the pair.
template <class Slot>
void combine(const ExpertMlpParams& p, int64_t i0, int64_t n, const float* y, const Slot& slot, ThreadPool& pool) {
  const int64_t d = p.x.dim(1), top_k = p.ids.dim(1);
  constexpr int64_t kTokens = 8;
  pool.run((n + kTokens - 1) / kTokens, [&](int64_t piece, int32_t) {
    for (int64_t i = piece * kTokens; i < std::min(n, (piece + 1) * kTokens); ++i) {
      float* out = p.out.as<float>() + (i0 + i) * p.out.stride[0];
      for (int64_t j = 0; j < top_k; ++j) {
        const float weight = p.weights.as<float>()[(i0 + i) * top_k + j];
        const float* row = y + slot(i * top_k + j) * d;
        for (int64_t c = 0; c < d; ++c) out[c] += weight * row[c];
      }
    }
  });
}

// Up to kGemvRows tokens: every (token, choice) reads its expert's weights once.
Status few_tokens(const ExpertMlpParams& p, int64_t d_ff, ThreadPool& pool) {
  const int64_t d = p.x.dim(1), top_k = p.ids.dim(1), pairs = p.x.dim(0) * top_k;
  const auto* ids = p.ids.as<int32_t>();
  const int64_t pitch = line_floats(d_ff);
  VESTIGE_ASSIGN(float* const hidden, scratch_floats(ScratchSlot::kOp, pairs * (2 * pitch + d)));
  float* const up = hidden + pairs * pitch;
  float* const y = up + pairs * pitch;
  const int64_t rows = gemv_piece_rows(gate_of(p.experts[0])), slices = (d_ff + rows - 1) / rows;
  pool.run(pairs * slices, [&](int64_t i, int32_t) {
    const int64_t pair = i / slices, begin = i % slices * rows, end = std::min(d_ff, begin + rows);
    const ExpertWeights& w = p.experts[static_cast<size_t>(ids[pair])];
    const float* x = p.x.as<float>() + pair / top_k * p.x.stride[0];
    float* h = hidden + pair * pitch;
    float* u = up + pair * pitch;
    gemv_rows({.x = x, .m = 1, .w = gate_of(w), .row_begin = begin, .row_end = end, .out = h});
    gemv_rows({.x = x, .m = 1, .w = up_of(w), .row_begin = begin, .row_end = end, .out = u});
    silu_mul_row(h + begin, u + begin, end - begin, h + begin);
  });
  const int64_t down_rows = gemv_piece_rows(down_of(p.experts[0])), down_slices = (d + down_rows - 1) / down_rows;
  pool.run(pairs * down_slices, [&](int64_t i, int32_t) {
    const int64_t pair = i / down_slices, begin = i % down_slices * down_rows;
    gemv_rows({.x = hidden + pair * pitch,
               .m = 1,
               .w = down_of(p.experts[static_cast<size_t>(ids[pair])]),
               .row_begin = begin,
               .row_end = std::min(d, begin + down_rows),
               .out = y + pair * d});
  });
  combine(
      p, 0, p.x.dim(0), y, [](int64_t pair) { return pair; }, pool);
  return {};
}

// Floats of one thread's work on a piece: the gathered rows, one slice of `up`, and the product's own.
struct Lane {
  int64_t x, up, product;
  Lane(int64_t d, int64_t d_ff)
      : x(line_floats(kGemmRows * d)),
        up(kGemmRows * kGemmCols),
        product(line_floats(gemm_scratch_floats(std::max(d, d_ff)))) {}
  int64_t total() const { return x + up + product; }
};

// Tokens [i0, i0 + n): gate and up by group, then down, then the sum over choices.
Status many_tokens(const ExpertMlpParams& p, int64_t d_ff, int64_t i0, int64_t n, ThreadPool& pool) {
  const int64_t d = p.x.dim(1), top_k = p.ids.dim(1), pairs = n * top_k;
  const Groups g = group_by_expert(p.ids.as<int32_t>() + i0 * top_k, pairs, p.experts.size());
  std::vector<int64_t> slot(static_cast<size_t>(pairs));
  for (size_t r = 0; r < g.order.size(); ++r) slot[static_cast<size_t>(g.order[r])] = static_cast<int64_t>(r);
  const Lane lane(d, d_ff);
  VESTIGE_ASSIGN(float* const hidden, scratch_floats(ScratchSlot::kOp, pairs * (d_ff + d)));
  VESTIGE_ASSIGN(float* const lanes, scratch_floats(ScratchSlot::kProduct, lane.total() * pool.n_threads()));
  float* const y = hidden + pairs * d_ff;

  const std::vector<Piece> ff_pieces = pieces_of(g, d_ff);
  pool.run(static_cast<int64_t>(ff_pieces.size()), [&](int64_t i, int32_t thread) {
    const Piece& piece = ff_pieces[static_cast<size_t>(i)];
    const ExpertWeights& w = p.experts[static_cast<size_t>(piece.expert)];
    float* const x = lanes + lane.total() * thread;
    float* const up = x + lane.x;
    for (int64_t r = 0; r < piece.count; ++r) {
      const int64_t token = i0 + g.order[static_cast<size_t>(piece.first + r)] / top_k;
      std::copy_n(p.x.as<float>() + token * p.x.stride[0], d, x + r * d);
    }
    float* const h = hidden + piece.first * d_ff + piece.col;
    const int64_t cols = std::min(kGemmCols, d_ff - piece.col);
    GemmParams product{.x = x,
                       .x_stride = d,
                       .m = piece.count,
                       .w = gate_of(w),
                       .col_begin = piece.col,
                       .col_end = piece.col + cols,
                       .out = h,
                       .out_stride = d_ff,
                       .scratch = up + lane.up};
    gemm_slice(product);
    product.w = up_of(w);
    product.out = up;
    product.out_stride = kGemmCols;
    gemm_slice(product);
    for (int64_t r = 0; r < piece.count; ++r) silu_mul_row(h + r * d_ff, up + r * kGemmCols, cols, h + r * d_ff);
  });
  const std::vector<Piece> down_pieces = pieces_of(g, d);
  pool.run(static_cast<int64_t>(down_pieces.size()), [&](int64_t i, int32_t thread) {
    const Piece& piece = down_pieces[static_cast<size_t>(i)];
    gemm_slice({.x = hidden + piece.first * d_ff,
                .x_stride = d_ff,
                .m = piece.count,
                .w = down_of(p.experts[static_cast<size_t>(piece.expert)]),
                .col_begin = piece.col,
                .col_end = std::min(d, piece.col + kGemmCols),
                .out = y + piece.first * d + piece.col,
                .out_stride = d,
                .scratch = lanes + lane.total() * thread + lane.x + lane.up});
  });
  combine(
      p, i0, n, y, [&](int64_t pair) { return slot[static_cast<size_t>(pair)]; }, pool);
  return {};
}

}  // namespace

Status expert_mlp(const ExpertMlpParams& p, Stream& stream) {
  const int64_t t = p.x.dim(0), d = p.x.dim(1), top_k = p.ids.dim(1);
  if (t == 0 || d == 0 || top_k == 0) return {};
  const int64_t d_ff = p.experts[0].gate.dim(0);
  if (d_ff == 0) return {};
  if (t <= MatmulParams::kGemvRows) return few_tokens(p, d_ff, *stream.pool());
  // Tokens go in blocks so that the grouped rows of one block stay near 64 MB; a row's bits do not depend on it.
  const int64_t block = std::max<int64_t>(64, (int64_t{16} << 20) / (top_k * (d + d_ff)));
  try {
    for (int64_t i = 0; i < t; i += block) {
      VESTIGE_TRY(many_tokens(p, d_ff, i, std::min(block, t - i), *stream.pool()));
    }
  } catch (const std::bad_alloc&) {
    return out_of_memory("expert_mlp: cannot group %lld tokens", static_cast<long long>(t));
  }
  return {};
}

}  // namespace vestige::cpu
