#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/row_tile.h"
#include "backend/cpu/sgemm.h"
#include "backend/cpu/tiles.h"
#include "base/thread_pool.h"

namespace vestige::cpu {

namespace {

constexpr int64_t kQueryTile = 64;
constexpr int64_t kRowTile = 256;

struct Tiles {
  float* queries;  // [kQueryTile, d]
  float* rows;     // [kRowTile, d]
  float* scores;   // [kQueryTile, kRowTile]
};

/// Of one query, running: with s over the rows so far and m the largest, sum exp(s - m) and sum (s - m) exp(s - m).
struct Spread {
  double sum = 0, weighted = 0;

  void add(double s, double most, double before) {
    if (s > before) {  // s is the new largest
      const double shift = before - s, shrink = std::exp(shift);
      weighted = sum == 0 ? 0 : shrink * (weighted + shift * sum);
      sum = sum * shrink + 1;
      return;
    }
    const double e = std::exp(s - most);
    sum += e;
    weighted += (s - most) * e;
  }
  double entropy() const { return sum == 0 ? 0 : std::log(sum) - weighted / sum; }
};

/// Takes the scores of rows [begin, begin + n) into the best of each query; a later row must be strictly better.
void take_best(const BestRowsParams& p, int64_t first_query, int64_t n_queries, int64_t begin, const float* scores,
               Spread* spread) {
  for (int64_t i = 0; i < n_queries; ++i) {
    float best = p.best.as<float>()[first_query + i];
    int32_t arg = p.arg.as<int32_t>()[first_query + i];
    const int64_t end = std::min<int64_t>(kRowTile, p.limit.as<int32_t>()[first_query + i] - begin);
    const float* s = scores + i * kRowTile;
    for (int64_t u = 0; u < end; ++u) {
      if (p.mask != nullptr && p.mask[begin + u] != p.want) continue;
      if (spread != nullptr) spread[i].add(double(s[u]), double(best), double(best));
      if (!(s[u] > best)) continue;
      best = s[u];
      arg = static_cast<int32_t>(begin + u);
    }
    p.best.as<float>()[first_query + i] = best;
    p.arg.as<int32_t>()[first_query + i] = arg;
  }
}

void best_of_queries(const BestRowsParams& p, int64_t first, const Tiles& t) {
  const RowLayout& l = p.rows.layout;
  const int64_t n = std::min(kQueryTile, p.q.dim(0) - first), d = l.d_scored();
  int32_t limit = 0;
  Spread spread[kQueryTile];
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(p.q.as<float>() + (first + i) * p.q.stride[0] + l.scored_begin(), d, t.queries + i * d);
    p.best.as<float>()[first + i] = -std::numeric_limits<float>::infinity();
    p.arg.as<int32_t>()[first + i] = -1;
    limit = std::max(limit, p.limit.as<int32_t>()[first + i]);
  }
  std::fill(t.queries + n * d, t.queries + kQueryTile * d, 0.0f);
  for (int64_t begin = 0; begin < limit; begin += kRowTile) {
    if (l.scored_content) widen_content(p.rows, begin, p.rows.n_rows, {t.rows, d, kRowTile});
    widen_branch(p.rows, begin, p.rows.n_rows, {t.rows + d - l.d_branch, d, kRowTile});
    sgemm({.m = kQueryTile,
           .n = kRowTile,
           .k = d,
           .a = {t.queries, d},
           .b = {t.rows, d, true},
           .out = t.scores,
           .out_stride = kRowTile,
           .alpha = p.scale});
    take_best(p, first, n, begin, t.scores, p.entropy.rank != 0 ? spread : nullptr);
  }
  for (int64_t i = 0; i < n && p.entropy.rank != 0; ++i) {
    p.entropy.as<float>()[first + i] = static_cast<float>(spread[i].entropy());
  }
}

}  // namespace

Status best_rows(const BestRowsParams& p, Stream& stream) {
  const int64_t d = p.rows.layout.d_scored();
  const int64_t n_queries = line_floats(kQueryTile * d), n_rows = line_floats(kRowTile * d);
  const int64_t per_thread = n_queries + n_rows + line_floats(kQueryTile * kRowTile);
  VESTIGE_ASSIGN(float* const memory, scratch_floats(ScratchSlot::kOp, stream.n_threads() * per_thread));
  stream.pool()->run(ceil_div(p.q.dim(0), kQueryTile), [&](int64_t tile, int32_t thread) {
    float* begin = memory + thread * per_thread;
    best_of_queries(p, tile * kQueryTile, {begin, begin + n_queries, begin + n_queries + n_rows});
  });
  return {};
}

}  // namespace vestige::cpu
