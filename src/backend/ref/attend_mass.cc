#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/ops/row_access.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

Status attend_mass(const AttendMassParams& p, Stream&) {
  const int64_t n = p.q.dim(0), h = p.q.dim(1), d = p.q.dim(2), first = p.rows.layout.scored_begin();
  std::vector<double> rows(static_cast<size_t>(p.rows.n_rows * d)), s(static_cast<size_t>(p.rows.n_rows));
  for (int64_t u = 0; u < p.rows.n_rows; ++u) load_row(p.rows, u, rows.data() + u * d);
  for (int64_t i = 0; i < n * h; ++i) {
    const float* q = p.q.as<float>() + i * d;
    const int64_t n_seen = std::min(p.rows.n_rows, p.first_position + i / h + 1);
    double best = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t u = 0; u < n_seen; ++u) {
      double dot = 0;
      for (int64_t k = first; k < d; ++k) dot += static_cast<double>(q[k]) * rows[static_cast<size_t>(u * d + k)];
      s[static_cast<size_t>(u)] = static_cast<double>(p.scale) * dot;
      best = std::max(best, s[static_cast<size_t>(u)]);
    }
    for (int64_t u = 0; u < n_seen; ++u) sum += std::exp(s[static_cast<size_t>(u)] - best);
    for (int64_t u = 0; u < n_seen; ++u) {
      const double weight = std::exp(s[static_cast<size_t>(u)] - best) / sum;
      if (!(weight > 0)) continue;
      if (p.mass.rank > 0) p.mass.as<int64_t>()[u] += std::llround(weight / kMassUnit);
      if (p.peak.rank > 0) p.peak.as<float>()[u] = std::max(p.peak.as<float>()[u], static_cast<float>(weight));
    }
  }
  return {};
}

}  // namespace vestige::ref
