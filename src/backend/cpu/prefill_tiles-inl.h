// Dense causal attention of a prefill chunk by tiles of queries and rows, shared by attend_prefill and
// attend_prefill_gqa, which differ in how keys and values are made of rows. Included once per target (Highway's -inl
// convention): no #pragma once.

#if defined(VESTIGE_PREFILL_TILES_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESTIGE_PREFILL_TILES_INL_
#undef VESTIGE_PREFILL_TILES_INL_
#else
#define VESTIGE_PREFILL_TILES_INL_
#endif

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/row_simd-inl.h"
#include "backend/cpu/sgemm.h"
#include "backend/cpu/tiles.h"
#include "base/thread_pool.h"
#include "vestige/device.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu::HWY_NAMESPACE {

// Borders of query and row tiles are fixed positions of the sequence and every product has a full tile's shape, so a
// query's bits do not depend on where the call starts or ends.
inline constexpr int64_t kQueryTile = 128;
inline constexpr int64_t kRowTile = 256;
/// Rows whose keys and values are expanded together: 2.6 MB a head at 192 + 128 wide.
inline constexpr int64_t kSpan = 2048;
/// Query heads in flight: tasks for 16 threads without holding the keys and values of all heads.
inline constexpr int64_t kHeads = 8;

/// Sizes and memory of one call. A key head is one set of keys and values; `h / n_kv` query heads read each.
struct PrefillWork {
  const float* q = nullptr;  // [t, h, d_qk]
  float* out = nullptr;      // [t, h, d_v]
  int64_t t = 0, h = 0, n_kv = 0, d_qk = 0, d_v = 0, position = 0;
  float scale = 1.0f;
  int64_t expand_size = 0;  // floats that a thread needs to expand a tile of rows

  int64_t first_tile = 0, n_tiles = 0, n_rows = 0;
  float* keys = nullptr;     // [key heads in flight, kSpan, d_qk]
  float* values = nullptr;   // [key heads in flight, kSpan, d_v]
  float* states = nullptr;   // [query heads in flight, n_tiles, state_size]: sums, max and sum of weights of each query
  float* threads = nullptr;  // [n_threads, thread_size]

  int64_t heads_per_key() const { return h / n_kv; }
  int64_t state_size() const { return line_floats(kQueryTile * (d_v + 2)); }
  int64_t thread_size() const {
    return std::max(expand_size, line_floats(kQueryTile * d_qk) + line_floats(kQueryTile * kRowTile));
  }
};

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

/// One tile of queries of query head `head`, number `in_group` of those in flight, against the rows [span, span_end).
HWY_NOINLINE inline void attend_tile(const PrefillWork& w, int64_t head, int64_t in_group, int64_t tile, int64_t span,
                                     int32_t thread) {
  const int64_t begin = (w.first_tile + tile) * kQueryTile, end = begin + kQueryTile;
  const int64_t first = std::max(begin, w.position), last = std::min(end, w.position + w.t);
  Slices slices(w.threads + thread * w.thread_size());
  float* q = slices.take(kQueryTile * w.d_qk);
  float* s = slices.take(kQueryTile * kRowTile);
  std::fill_n(q, kQueryTile * w.d_qk, 0.0f);
  for (int64_t i = first; i < last; ++i) {
    std::copy_n(w.q + ((i - w.position) * w.h + head) * w.d_qk, w.d_qk, q + (i - begin) * w.d_qk);
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
    const int64_t slot = in_group / w.heads_per_key() * kSpan + row % kSpan;
    sgemm({.m = kQueryTile,
           .n = n,
           .k = w.d_qk,
           .a = {q, w.d_qk},
           .b = {w.keys + slot * w.d_qk, w.d_qk, true},
           .out = s,
           .out_stride = kRowTile,
           .alpha = w.scale});
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
    float* out = w.out + ((i - w.position) * w.h + head) * w.d_v;
    for (int64_t k = 0; k < w.d_v; ++k) out[k] = sums[(i - begin) * w.d_v + k] / sum[i - begin];
  }
}

/// Where one tile of rows of one key head goes: kRowTile rows of d_qk and of d_v floats, dense.
struct KeyTile {
  int64_t key_head = 0, row = 0;  // the tile's first row; rows at or past n_rows become zero
  float* keys = nullptr;
  float* values = nullptr;
  float* scratch = nullptr;  // expand_size floats
};

/// @param expand  void(const KeyTile&), thread-safe
template <class Expand>
Status attend_spans(PrefillWork& w, const Expand& expand, Stream& stream) {
  w.n_rows = w.position + w.t;
  w.first_tile = w.position / kQueryTile;
  w.n_tiles = ceil_div(w.n_rows, kQueryTile) - w.first_tile;
  const int64_t group = std::clamp<int64_t>(kHeads / w.heads_per_key(), 1, w.n_kv);  // key heads in flight
  const int64_t n_keys = group * kSpan * w.d_qk, n_values = group * kSpan * w.d_v;
  const int64_t n_states = group * w.heads_per_key() * w.n_tiles * w.state_size();
  VESTIGE_ASSIGN(float* const memory,
                 scratch_floats(ScratchSlot::kOp, line_floats(n_keys) + line_floats(n_values) + n_states +
                                                      stream.n_threads() * w.thread_size()));
  Slices slices(memory);
  w.keys = slices.take(n_keys);
  w.values = slices.take(n_values);
  w.states = slices.take(n_states);
  w.threads = slices.take(stream.n_threads() * w.thread_size());
  for (int64_t key_head = 0; key_head < w.n_kv; key_head += group) {
    const int64_t n_keys_here = std::min(group, w.n_kv - key_head), n_heads = n_keys_here * w.heads_per_key();
    for (int64_t span = 0; span < w.n_rows; span += kSpan) {
      const int64_t n_row_tiles = ceil_div(std::min(kSpan, w.n_rows - span), kRowTile);
      stream.pool()->run(n_keys_here * n_row_tiles, [&](int64_t i, int32_t thread) {
        const int64_t row = span + i % n_row_tiles * kRowTile, slot = i / n_row_tiles * kSpan + row % kSpan;
        expand(KeyTile{.key_head = key_head + i / n_row_tiles,
                       .row = row,
                       .keys = w.keys + slot * w.d_qk,
                       .values = w.values + slot * w.d_v,
                       .scratch = w.threads + thread * w.thread_size()});
      });
      // Query tiles from the last one down: the longest go first, so threads end together.
      const int64_t skip = std::clamp<int64_t>(span / kQueryTile - w.first_tile, 0, w.n_tiles);
      const int64_t n_query_tiles = w.n_tiles - skip;
      stream.pool()->run(n_heads * n_query_tiles, [&](int64_t i, int32_t thread) {
        const int64_t tile = w.n_tiles - 1 - i / n_heads, in_group = i % n_heads;
        attend_tile(w, key_head * w.heads_per_key() + in_group, in_group, tile, span, thread);
      });
    }
  }
  return {};
}

}  // namespace vestige::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VESTIGE_PREFILL_TILES_INL_
