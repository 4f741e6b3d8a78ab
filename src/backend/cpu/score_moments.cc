#include <algorithm>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/row_scores.h"
#include "backend/cpu/tiles.h"
#include "base/thread_pool.h"

namespace vestige::cpu {

namespace {

constexpr int64_t kTile = kGemmCols;  // rows of one piece

/// Mean and variance of the rows [begin, begin + n) for every head. Two float64 sums a row, in the order of the
/// queries.
void moments(const ScoreMomentsParams& p, int64_t begin, int64_t n, float* scores, float* pack) {
  const int64_t n_queries = p.q.dim(0), h = p.q.dim(1), d = p.q.dim(2);
  for (int64_t head = 0; head < h; ++head) {
    double sum[kTile] = {}, square[kTile] = {};
    for (int64_t i = 0; i < n_queries; i += kGemmRows) {
      const int64_t m = std::min(kGemmRows, n_queries - i);
      score_rows_of({.q = p.q.as<float>() + (i * h + head) * d, .stride = h * d, .n = m}, p.rows, begin, begin + n,
                    {scores, kTile, pack});
      for (int64_t j = 0; j < m; ++j) {
        for (int64_t u = 0; u < n; ++u) {
          const auto s = static_cast<double>(scores[j * kTile + u]) * static_cast<double>(p.scale);
          sum[u] += s;
          square[u] += s * s;
        }
      }
    }
    for (int64_t u = 0; u < n; ++u) {
      const double mean = sum[u] / static_cast<double>(n_queries);
      const double variance = square[u] / static_cast<double>(n_queries) - mean * mean;
      p.mean.as<float>()[head * p.rows.n_rows + begin + u] = static_cast<float>(mean);
      p.variance.as<float>()[head * p.rows.n_rows + begin + u] = static_cast<float>(std::max(variance, 0.0));
    }
  }
}

}  // namespace

Status score_moments(const ScoreMomentsParams& p, Stream& stream) {
  const int64_t n_scores = line_floats(kGemmRows * kTile), n_pack = gemm_scratch_floats(p.q.dim(2));
  VESTIGE_ASSIGN(float* const memory, scratch_floats(ScratchSlot::kOp, stream.n_threads() * (n_scores + n_pack)));
  stream.pool()->run(ceil_div(p.rows.n_rows, kTile), [&](int64_t tile, int32_t thread) {
    float* own = memory + thread * (n_scores + n_pack);
    moments(p, tile * kTile, std::min(kTile, p.rows.n_rows - tile * kTile), own, own + n_scores);
  });
  return {};
}

}  // namespace vestige::cpu
