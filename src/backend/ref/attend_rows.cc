#include <cmath>
#include <limits>
#include <vector>

#include "backend/ops/row_access.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

namespace {

// One sequence: q and out of one sequence, [h, d_row] and [h, d_content].
void attend_set(const RowSet& set, const float* q, int64_t h, double scale, float* out, float* lse, float* max) {
  const int64_t n = set.n_rows != nullptr ? *set.n_rows : set.pages.n_rows;
  const int64_t d_row = set.pages.layout.d_row(), d_content = set.pages.layout.d_content;
  const int64_t first = set.pages.layout.scored_begin();
  std::vector<double> row(static_cast<size_t>(d_row)), acc(static_cast<size_t>(d_content));
  std::vector<double> s(static_cast<size_t>(n));
  for (int64_t head = 0; head < h; ++head) {
    double best = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      load_row(set.pages, set.ids != nullptr ? set.ids[i] : i, row.data());
      double dot = 0;
      for (int64_t k = first; k < d_row; ++k) {
        dot += static_cast<double>(q[head * d_row + k]) * row[static_cast<size_t>(k)];
      }
      s[static_cast<size_t>(i)] = scale * dot;
      best = std::max(best, s[static_cast<size_t>(i)]);
    }
    acc.assign(acc.size(), 0.0);
    for (int64_t i = 0; i < n; ++i) {
      load_row(set.pages, set.ids != nullptr ? set.ids[i] : i, row.data());
      const double weight = std::exp(s[static_cast<size_t>(i)] - best);
      sum += weight;
      for (int64_t k = 0; k < d_content; ++k) acc[static_cast<size_t>(k)] += weight * row[static_cast<size_t>(k)];
    }
    for (int64_t k = 0; k < d_content; ++k) {
      out[head * d_content + k] = n == 0 ? 0.0f : static_cast<float>(acc[static_cast<size_t>(k)] / sum);
    }
    lse[head] = static_cast<float>(best + std::log(sum));
    if (max != nullptr) max[head] = static_cast<float>(best);
  }
}

}  // namespace

Status attend_rows(const AttendRowsParams& p, Stream&) {
  const int64_t h = p.q.dim(1);
  for (int64_t b = 0; b < p.q.dim(0); ++b) {
    const RowSet& set = p.rows[static_cast<size_t>(b)];
    float* max = p.max.empty() ? nullptr : p.max.as<float>() + b * h;
    attend_set(set, p.q.as<float>() + b * h * p.q.dim(2), h, static_cast<double>(p.scale),
               p.out.as<float>() + b * h * p.out.dim(2), p.lse.as<float>() + b * h, max);
  }
  return {};
}

}  // namespace vestige::ref
