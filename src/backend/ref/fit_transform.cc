#include <functional>

#include "backend/ops/transform_from_moments.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

namespace {

/// Lower triangle of sum x x^T / n over n vectors [d].
std::vector<double> moment(int64_t n, int64_t d, const std::function<double(int64_t i, int64_t k)>& x) {
  std::vector<double> out(static_cast<size_t>(d * d));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < d; ++j) {
      for (int64_t k = 0; k <= j; ++k) out[static_cast<size_t>(j * d + k)] += x(i, j) * x(i, k) / double(n);
    }
  }
  return out;
}

}  // namespace

Status fit_transform(const FitTransformParams& p, Stream&) {
  const int64_t n = p.queries.dim(0), h = p.queries.dim(1), d = p.queries.dim(2), m = p.rows.dim(0);
  const float *q = p.queries.as<float>(), *rows = p.rows.as<float>();
  TransformMoments moments;
  moments.mean.resize(static_cast<size_t>(d));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t k = 0; k < d; ++k) moments.mean[static_cast<size_t>(k)] += double(rows[i * d + k]) / double(m);
  }
  moments.covariance = moment(
      m, d, [&](int64_t i, int64_t k) { return double(rows[i * d + k]) - moments.mean[static_cast<size_t>(k)]; });
  moments.queries = moment(n * h, d, [&](int64_t i, int64_t k) { return double(q[i * d + k]); });
  VESTIGE_TRY(transform_from_moments(moments, p));
  const int64_t n_groups = p.metric.dim(0), per_group = h / n_groups;
  std::vector<double> dual(static_cast<size_t>(n * h * d));
  for (int64_t i = 0; i < n * h; ++i) {
    for (int64_t j = 0; j < d; ++j) {
      for (int64_t k = 0; k < d; ++k) {
        dual[static_cast<size_t>(i * d + j)] += double(p.dual.as<float>()[j * d + k]) * double(q[i * d + k]);
      }
    }
  }
  for (int64_t g = 0; g < n_groups; ++g) {
    const auto of_group = [&](int64_t i, int64_t k) {
      const int64_t query = i / per_group * h + g * per_group + i % per_group;
      return dual[static_cast<size_t>(query * d + k)];
    };
    VESTIGE_TRY(metric_from_moment(moment(n * per_group, d, of_group), g, p));
  }
  return {};
}

}  // namespace vestige::ref
