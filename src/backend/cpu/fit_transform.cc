#include <algorithm>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/sgemm.h"
#include "backend/cpu/tiles.h"
#include "backend/ops/transform_from_moments.h"
#include "base/thread_pool.h"

namespace vestige::cpu {

namespace {

// Vectors are added up in runs of this many, each by one task, and the runs in order.
constexpr int64_t kRunRows = 512;
constexpr int64_t kMaxRuns = 16;

/// n vectors of d floats; vector i starts at data + (i / per_item) * item_stride + (i % per_item) * d.
struct Vectors {
  const float* data = nullptr;
  int64_t n = 0, d = 0, per_item = 1, item_stride = 0;
  const float* at(int64_t i) const { return data + i / per_item * item_stride + i % per_item * d; }
};

/// Lower triangle of sum (x - mean) (x - mean)^T / n.
std::vector<double> second_moment(const Vectors& x, const double* mean, ThreadPool& pool) {
  const int64_t d = x.d, n_runs = std::min(kMaxRuns, ceil_div(x.n, kRunRows)), per_run = ceil_div(x.n, n_runs);
  std::vector<std::vector<double>> parts(static_cast<size_t>(n_runs)), rows(static_cast<size_t>(n_runs));
  for (auto& part : parts) part.assign(static_cast<size_t>(d * d), 0.0);
  for (auto& block : rows) block.resize(static_cast<size_t>(std::min(kRunRows, per_run) * d));
  pool.run(n_runs, [&](int64_t run, int32_t) {
    double* block = rows[static_cast<size_t>(run)].data();
    const int64_t end = std::min(x.n, (run + 1) * per_run);
    for (int64_t begin = run * per_run; begin < end; begin += kRunRows) {
      const int64_t count = std::min(kRunRows, end - begin);
      for (int64_t i = 0; i < count; ++i) {
        const float* from = x.at(begin + i);
        for (int64_t k = 0; k < d; ++k) block[i * d + k] = double(from[k]) - (mean == nullptr ? 0.0 : mean[k]);
      }
      add_dsyrk({.n = d,
                 .k = count,
                 .a = block,
                 .a_stride = d,
                 .out = parts[static_cast<size_t>(run)].data(),
                 .out_stride = d});
    }
  });
  std::vector<double> total = std::move(parts[0]);
  for (int64_t run = 1; run < n_runs; ++run) {
    for (size_t i = 0; i < total.size(); ++i) total[i] += parts[static_cast<size_t>(run)][i];
  }
  for (double& v : total) v /= static_cast<double>(x.n);
  return total;
}

}  // namespace

Status fit_transform(const FitTransformParams& p, Stream& stream) {
  const int64_t n = p.queries.dim(0), h = p.queries.dim(1), d = p.queries.dim(2), m = p.rows.dim(0);
  const float* rows = p.rows.as<float>();
  TransformMoments moments;
  moments.mean.resize(static_cast<size_t>(d));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t k = 0; k < d; ++k) moments.mean[static_cast<size_t>(k)] += double(rows[i * d + k]);
  }
  for (double& v : moments.mean) v /= static_cast<double>(m);
  ThreadPool& pool = *stream.pool();
  moments.covariance = second_moment({rows, m, d, 1, d}, moments.mean.data(), pool);
  moments.queries = second_moment({p.queries.as<float>(), n * h, d, 1, d}, nullptr, pool);
  VESTIGE_TRY(transform_from_moments(moments, p));

  const int64_t n_groups = p.metric.dim(0), per_group = h / n_groups;
  std::vector<float> dual(static_cast<size_t>(n * h * d));
  pool.run(ceil_div(n * h, kRunRows), [&](int64_t run, int32_t) {
    const int64_t begin = run * kRunRows;
    sgemm({.m = std::min(kRunRows, n * h - begin),
           .n = d,
           .k = d,
           .a = {p.queries.as<float>() + begin * d, d},
           .b = {p.dual.as<float>(), d, true},
           .out = dual.data() + begin * d,
           .out_stride = d});
  });
  for (int64_t g = 0; g < n_groups; ++g) {
    const Vectors of_group = {dual.data() + g * per_group * d, n * per_group, d, per_group, h * d};
    VESTIGE_TRY(metric_from_moment(second_moment(of_group, nullptr, pool), g, p));
  }
  return {};
}

}  // namespace vestige::cpu
