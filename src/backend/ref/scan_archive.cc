#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/ops/row_access.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

namespace {

struct Query {
  std::vector<double> branch, sketch;
  double cert = 0;  // z * scale * || q_c - V^T V q_c || / sqrt(d_c - r)
};

Query make_query(const ScanSet& set, const float* q, int64_t d_content, double scale) {
  const int64_t d_branch = set.pages.d_branch, r = set.pages.rank;
  const float* basis = set.basis.as<float>();
  Query out;
  for (int64_t k = 0; k < d_branch; ++k) {
    const float x = q[d_content + k];
    out.branch.push_back(static_cast<double>(set.pages.branch_dtype == DType::kBF16 ? bf16_to_f32(f32_to_bf16(x)) : x));
  }
  std::vector<double> rest(q, q + d_content);
  bool fits = true;
  for (int64_t j = 0; j < r; ++j) {
    double sum = 0;
    for (int64_t k = 0; k < d_content; ++k)
      sum += static_cast<double>(basis[j * d_content + k]) * static_cast<double>(q[k]);
    for (int64_t k = 0; k < d_content; ++k)
      rest[static_cast<size_t>(k)] -= static_cast<double>(basis[j * d_content + k]) * sum;
    const float rounded = f16_to_f32(f32_to_f16(static_cast<float>(sum)));
    out.sketch.push_back(static_cast<double>(rounded));
    fits = fits && std::isfinite(rounded);
  }
  double square = 0;
  for (double x : rest) square += x * x;
  if (d_content > r) {
    out.cert = static_cast<double>(set.z) * scale * std::sqrt(square / static_cast<double>(d_content - r));
  }
  if (!fits) out.cert = NAN;
  return out;
}

double index_score(const RecallPages& p, const Query& query, int64_t u, double scale) {
  double dot = 0;
  const std::byte* sketch = row_at(p.sketch, p.page_rows, 2 * static_cast<int64_t>(p.rank), u);
  for (int64_t k = 0; k < p.d_branch; ++k) {
    const int64_t stride = static_cast<int64_t>(dtype_bytes(p.branch_dtype)) * p.d_branch;
    const std::byte* branch = row_at(p.branch, p.page_rows, stride, u);
    dot += query.branch[static_cast<size_t>(k)] * static_cast<double>(load_number(branch, p.branch_dtype, k));
  }
  for (int64_t k = 0; k < p.rank; ++k) {
    dot += query.sketch[static_cast<size_t>(k)] * static_cast<double>(load_number(sketch, DType::kF16, k));
  }
  const std::byte* residual = row_at(p.residual, p.page_rows, 4, u);
  return scale * dot + query.cert * static_cast<double>(load_number(residual, DType::kF32, 0));
}

}  // namespace

Status scan_archive(const ScanArchiveParams& p, Stream&) {
  const int64_t h = p.q.dim(1), d_row = p.q.dim(2), capacity = p.ids.dim(1);
  const double scale = static_cast<double>(p.scale);
  for (int64_t b = 0; b < p.q.dim(0); ++b) {
    const ScanSet& set = p.sets[static_cast<size_t>(b)];
    std::vector<Query> queries;
    for (int64_t head = 0; head < h; ++head) {
      queries.push_back(make_query(set, p.q.as<float>() + (b * h + head) * d_row, d_row - set.pages.d_branch, scale));
    }
    int32_t n_fired = 0;
    for (int64_t u = 0; u < set.pages.n_rows; ++u) {
      if (set.kept != nullptr && set.kept[u] != 0) continue;
      bool fires = false;
      for (int64_t head = 0; head < h && !fires; ++head) {
        const double score = index_score(set.pages, queries[static_cast<size_t>(head)], u, scale);
        const float threshold = p.threshold.as<float>()[b * h + head];
        fires = threshold != INFINITY && !(score <= static_cast<double>(threshold));  // NaN fires
      }
      if (!fires) continue;
      if (n_fired < capacity) p.ids.as<int32_t>()[b * capacity + n_fired] = static_cast<int32_t>(u);
      ++n_fired;
    }
    p.n_fired.as<int32_t>()[b] = n_fired;
    p.n_ids.as<int32_t>()[b] = static_cast<int32_t>(std::min<int64_t>(n_fired, capacity));
  }
  return {};
}

}  // namespace vestige::ref
