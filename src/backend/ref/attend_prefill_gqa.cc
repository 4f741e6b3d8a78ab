#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/ops/row_access.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

Status attend_prefill_gqa(const AttendPrefillGqaParams& p, Stream&) {
  const int64_t t = p.q.dim(0), h = p.q.dim(1), d_k = p.q.dim(2), d_v = p.out.dim(2), d_row = d_k + d_v;
  const int64_t n_kv = static_cast<int64_t>(p.rows.size()), n = p.position + t;
  std::vector<double> rows(static_cast<size_t>(n * d_row)), s(static_cast<size_t>(n));
  for (int64_t head = 0; head < h; ++head) {
    for (int64_t u = 0; u < n; ++u) {
      load_row(p.rows[static_cast<size_t>(head / (h / n_kv))], u, rows.data() + u * d_row);
    }
    for (int64_t i = 0; i < t; ++i) {
      const float* q = p.q.as<float>() + (i * h + head) * d_k;
      double max = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t u = 0; u <= p.position + i; ++u) {
        double dot = 0;
        for (int64_t k = 0; k < d_k; ++k)
          dot += static_cast<double>(q[k]) * rows[static_cast<size_t>(u * d_row + d_v + k)];
        s[static_cast<size_t>(u)] = static_cast<double>(p.scale) * dot;
        max = std::max(max, s[static_cast<size_t>(u)]);
      }
      for (int64_t u = 0; u <= p.position + i; ++u) {
        sum += s[static_cast<size_t>(u)] = std::exp(s[static_cast<size_t>(u)] - max);
      }
      for (int64_t k = 0; k < d_v; ++k) {
        double acc = 0;
        for (int64_t u = 0; u <= p.position + i; ++u) {
          acc += s[static_cast<size_t>(u)] * rows[static_cast<size_t>(u * d_row + k)];
        }
        p.out.as<float>()[(i * h + head) * d_v + k] = static_cast<float>(acc / sum);
      }
    }
  }
  return {};
}

}  // namespace vestige::ref
