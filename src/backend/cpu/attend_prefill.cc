#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/row_tile.h"
#include "backend/cpu/sgemm.h"
#include "backend/cpu/tiles.h"
#include "base/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attend_prefill.cc"
#include "hwy/foreach_target.h"
// After foreach_target: compiled once a target.
#include "backend/cpu/row_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu::HWY_NAMESPACE {
namespace {

// Borders of query and row tiles are fixed positions of the sequence and every product has a full tile's shape, so a
// query's bits do not depend on where the call starts or ends.
constexpr int64_t kQueryTile = 128;
constexpr int64_t kRowTile = 256;
/// Rows whose keys and values are expanded together: 2.6 MB a head at 192 + 128 wide.
constexpr int64_t kSpan = 2048;
/// Heads in flight: tasks for 16 threads without holding the keys and values of all heads.
constexpr int64_t kHeads = 8;

/// Sizes and memory of one call.
struct Work {
  const AttendPrefillParams* p = nullptr;
  int64_t t = 0, h = 0, d_nope = 0, d_branch = 0, d_qk = 0, d_v = 0, d_content = 0;
  int64_t first_tile = 0, n_tiles = 0, n_rows = 0;
  float* keys = nullptr;     // [kHeads, kSpan, d_qk]
  float* values = nullptr;   // [kHeads, kSpan, d_v]
  float* states = nullptr;   // [kHeads, n_tiles, state_size]: sums, max and sum of weights of each query
  float* threads = nullptr;  // [n_threads, thread_size]

  int64_t state_size() const { return line_floats(kQueryTile * (d_v + 2)); }
  int64_t thread_size() const {
    const int64_t expand = line_floats(kRowTile * d_content) + line_floats(std::max(d_nope, d_v) * d_content);
    const int64_t attend = line_floats(kQueryTile * d_qk) + line_floats(kQueryTile * kRowTile);
    return std::max(expand, attend);
  }
};

/// Keys and values of one head over one tile of rows, in place of tile `slot` of the span.
void expand_tile(const Work& w, int64_t head, int64_t in_group, int64_t row, int32_t thread) {
  const AttendPrefillParams& p = *w.p;
  Slices slices(w.threads + thread * w.thread_size());
  float* content = slices.take(kRowTile * w.d_content);
  float* weight = slices.take(std::max(w.d_nope, w.d_v) * w.d_content);
  widen_content(p.rows, row, w.n_rows, {content, w.d_content, kRowTile});
  auto expand = [&](const ConstTensorView& all, float* out, int64_t out_stride) {
    const int64_t bytes = all.stride[0] * static_cast<int64_t>(dtype_bytes(all.dtype));
    widen_numbers(all.as<std::byte>() + head * bytes, all.dtype, all.dim(1) * w.d_content, weight);
    sgemm({.m = kRowTile,
           .n = all.dim(1),
           .k = w.d_content,
           .a = {content, w.d_content},
           .b = {weight, w.d_content, true},
           .out = out,
           .out_stride = out_stride});
  };
  const int64_t slot = in_group * kSpan + row % kSpan;
  float* keys = w.keys + slot * w.d_qk;
  expand(p.w_uk, keys, w.d_qk);
  widen_branch(p.rows, row, w.n_rows, {keys + w.d_nope, w.d_qk, kRowTile});
  expand(p.w_uv, w.values + slot * w.d_v, w.d_v);
}

/// Scores of one query to weights; its sums shrink to the new max. Scores past n_seen become 0.
HWY_INLINE void weigh_query(float* s, int64_t n, int64_t n_seen, float* sums, int64_t d_v, float* max, float* sum) {
  const DF d;
  n_seen = std::min(n, n_seen);
  std::fill(s + n_seen, s + n, -std::numeric_limits<float>::infinity());
  VF best = hn::Set(d, *max);
  for (int64_t u = 0; u < n; u += kLanes) best = hn::Max(best, hn::LoadU(d, s + u));
  const float old = *max;
  *max = hn::GetLane(hn::MaxOfLanes(d, best));
  const VF base = hn::Set(d, *max);
  VF total = hn::Zero(d);
  for (int64_t u = 0; u < n; u += kLanes) {
    const VF e = exp_nonpositive(d, hn::Sub(hn::LoadU(d, s + u), base));
    hn::StoreU(e, d, s + u);
    total = hn::Add(total, e);
  }
  const float shrink = old == *max ? 1.0f : std::exp(old - *max);
  *sum = *sum * shrink + hn::GetLane(hn::SumOfLanes(d, total));
  if (shrink == 1.0f) return;
  const VF factor = hn::Set(d, shrink);
  int64_t k = 0;
  for (; k + kLanes <= d_v; k += kLanes) hn::StoreU(hn::Mul(factor, hn::LoadU(d, sums + k)), d, sums + k);
  for (; k < d_v; ++k) sums[k] *= shrink;
}

/// One tile of queries of one head against the rows [span, span_end).
HWY_NOINLINE void attend_tile(const Work& w, int64_t head, int64_t in_group, int64_t tile, int64_t span,
                              int32_t thread) {
  const AttendPrefillParams& p = *w.p;
  const int64_t begin = (w.first_tile + tile) * kQueryTile, end = begin + kQueryTile;
  const int64_t first = std::max(begin, p.position), last = std::min(end, p.position + w.t);
  Slices slices(w.threads + thread * w.thread_size());
  float* q = slices.take(kQueryTile * w.d_qk);
  float* s = slices.take(kQueryTile * kRowTile);
  std::fill_n(q, kQueryTile * w.d_qk, 0.0f);
  for (int64_t i = first; i < last; ++i) {
    std::copy_n(p.q.as<float>() + ((i - p.position) * w.h + head) * w.d_qk, w.d_qk, q + (i - begin) * w.d_qk);
  }
  float* sums = w.states + (in_group * w.n_tiles + tile) * w.state_size();
  float* max = sums + kQueryTile * w.d_v;
  float* sum = max + kQueryTile;
  if (span == 0) {
    std::fill_n(sums, kQueryTile * w.d_v, 0.0f);
    std::fill_n(max, kQueryTile, -std::numeric_limits<float>::infinity());
    std::fill_n(sum, kQueryTile, 0.0f);
  }
  for (int64_t row = span; row < std::min(span + kSpan, end); row += kRowTile) {
    const int64_t n = std::min(kRowTile, end - row);  // no columns past the last query of the tile
    const int64_t slot = in_group * kSpan + row % kSpan;
    sgemm({.m = kQueryTile,
           .n = n,
           .k = w.d_qk,
           .a = {q, w.d_qk},
           .b = {w.keys + slot * w.d_qk, w.d_qk, true},
           .out = s,
           .out_stride = kRowTile,
           .alpha = p.scale});
    for (int64_t i = 0; i < kQueryTile; ++i) {
      weigh_query(s + i * kRowTile, n, begin + i + 1 - row, sums + i * w.d_v, w.d_v, max + i, sum + i);
    }
    sgemm({.m = kQueryTile,
           .n = w.d_v,
           .k = n,
           .a = {s, kRowTile},
           .b = {w.values + slot * w.d_v, w.d_v},
           .out = sums,
           .out_stride = w.d_v,
           .beta = 1.0f});
  }
  if (span + kSpan < end) return;
  for (int64_t i = first; i < last; ++i) {
    float* out = p.out.as<float>() + ((i - p.position) * w.h + head) * w.d_v;
    for (int64_t k = 0; k < w.d_v; ++k) out[k] = sums[(i - begin) * w.d_v + k] / sum[i - begin];
  }
}

Status attend(const AttendPrefillParams& p, Stream& stream) {
  Work w;
  w.p = &p;
  w.t = p.q.dim(0);
  if (w.t == 0) return {};
  w.h = p.q.dim(1);
  w.d_qk = p.q.dim(2);
  w.d_nope = p.w_uk.dim(1);
  w.d_v = p.w_uv.dim(1);
  w.d_content = p.rows.layout.d_content;
  w.n_rows = p.position + w.t;
  w.first_tile = p.position / kQueryTile;
  w.n_tiles = ceil_div(w.n_rows, kQueryTile) - w.first_tile;
  const int64_t group = std::min(w.h, kHeads);
  const int64_t n_keys = group * kSpan * w.d_qk, n_values = group * kSpan * w.d_v;
  const int64_t n_states = group * w.n_tiles * w.state_size(), n_threads = stream.n_threads() * w.thread_size();
  VESTIGE_ASSIGN(float* const memory,
                 scratch_floats(ScratchSlot::kOp, line_floats(n_keys) + line_floats(n_values) + n_states + n_threads));
  Slices slices(memory);
  w.keys = slices.take(n_keys);
  w.values = slices.take(n_values);
  w.states = slices.take(n_states);
  w.threads = slices.take(n_threads);
  for (int64_t head = 0; head < w.h; head += group) {
    const int64_t n_heads = std::min(group, w.h - head);
    for (int64_t span = 0; span < w.n_rows; span += kSpan) {
      const int64_t n_row_tiles = ceil_div(std::min(kSpan, w.n_rows - span), kRowTile);
      stream.pool()->run(n_heads * n_row_tiles, [&](int64_t i, int32_t thread) {
        const int64_t in_group = i / n_row_tiles;
        expand_tile(w, head + in_group, in_group, span + i % n_row_tiles * kRowTile, thread);
      });
      // Query tiles from the last one down: the longest go first, so threads end together.
      const int64_t skip = std::clamp<int64_t>(span / kQueryTile - w.first_tile, 0, w.n_tiles);
      const int64_t n_query_tiles = w.n_tiles - skip;
      stream.pool()->run(n_heads * n_query_tiles, [&](int64_t i, int32_t thread) {
        const int64_t tile = w.n_tiles - 1 - i / n_heads, in_group = i % n_heads;
        attend_tile(w, head + in_group, in_group, tile, span, thread);
      });
    }
  }
  return {};
}

}  // namespace
}  // namespace vestige::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(attend);

Status attend_prefill(const AttendPrefillParams& p, Stream& stream) { return HWY_DYNAMIC_DISPATCH(attend)(p, stream); }

}  // namespace vestige::cpu
#endif  // HWY_ONCE
