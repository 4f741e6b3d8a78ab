#include <vector>

#include "backend/ops/row_access.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

Status score_moments(const ScoreMomentsParams& p, Stream&) {
  const int64_t n = p.q.dim(0), h = p.q.dim(1), d = p.q.dim(2), first = p.rows.layout.scored_begin();
  std::vector<double> row(static_cast<size_t>(d)), s(static_cast<size_t>(n));
  for (int64_t u = 0; u < p.rows.n_rows; ++u) {
    load_row(p.rows, u, row.data());
    for (int64_t head = 0; head < h; ++head) {
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < n; ++i) {
        const float* q = p.q.as<float>() + (i * h + head) * d;
        double dot = 0;
        for (int64_t k = first; k < d; ++k) dot += static_cast<double>(q[k]) * row[static_cast<size_t>(k)];
        s[static_cast<size_t>(i)] = static_cast<double>(p.scale) * dot;
        mean += s[static_cast<size_t>(i)] / static_cast<double>(n);
      }
      for (double x : s) variance += (x - mean) * (x - mean) / static_cast<double>(n);
      p.mean.as<float>()[head * p.rows.n_rows + u] = static_cast<float>(mean);
      p.variance.as<float>()[head * p.rows.n_rows + u] = static_cast<float>(variance);
    }
  }
  return {};
}

}  // namespace vestige::ref
