#include <cmath>
#include <limits>
#include <vector>

#include "backend/ops/row_access.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

namespace {

/// Entropy of the softmax of `scores`.
double entropy(const std::vector<double>& scores, double most) {
  double sum = 0, weighted = 0;
  for (const double s : scores) sum += std::exp(s - most);
  for (const double s : scores) weighted += std::exp(s - most) / sum * (s - most);
  return scores.empty() ? 0.0 : std::log(sum) - weighted;
}

}  // namespace

Status best_rows(const BestRowsParams& p, Stream&) {
  const int64_t n = p.q.dim(0), d = p.q.dim(1), first = p.rows.layout.scored_begin();
  std::vector<double> row(static_cast<size_t>(d)),
      best(static_cast<size_t>(n), -std::numeric_limits<double>::infinity());
  std::vector<std::vector<double>> scores(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) p.arg.as<int32_t>()[i] = -1;
  for (int64_t u = 0; u < p.rows.n_rows; ++u) {
    if (p.mask != nullptr && p.mask[u] != p.want) continue;
    load_row(p.rows, u, row.data());
    for (int64_t i = 0; i < n; ++i) {
      if (u >= p.limit.as<int32_t>()[i]) continue;
      const float* q = p.q.as<float>() + i * p.q.stride[0];
      double dot = 0;
      for (int64_t k = first; k < d; ++k) dot += static_cast<double>(q[k]) * row[static_cast<size_t>(k)];
      scores[static_cast<size_t>(i)].push_back(static_cast<double>(p.scale) * dot);
      if (static_cast<double>(p.scale) * dot > best[static_cast<size_t>(i)]) {
        best[static_cast<size_t>(i)] = static_cast<double>(p.scale) * dot;
        p.arg.as<int32_t>()[i] = static_cast<int32_t>(u);
      }
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    p.best.as<float>()[i] = static_cast<float>(best[at]);
    if (p.entropy.rank != 0) p.entropy.as<float>()[i] = static_cast<float>(entropy(scores[at], best[at]));
  }
  return {};
}

}  // namespace vestige::ref
