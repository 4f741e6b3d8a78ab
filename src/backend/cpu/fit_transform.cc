#include <algorithm>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/second_moment.h"
#include "backend/cpu/sgemm.h"
#include "backend/cpu/tiles.h"
#include "backend/ops/transform_from_moments.h"
#include "base/thread_pool.h"

namespace vestige::cpu {

namespace {

constexpr int64_t kRunRows = 512;  // queries of one product

}  // namespace

Status fit_transform(const FitTransformParams& p, Stream& stream) {
  const int64_t n = p.queries.dim(0), h = p.queries.dim(1), d = p.queries.dim(2), m = p.rows.dim(0);
  const Vectors rows = {.data = p.rows.as<float>(), .n = m, .d = d, .item_stride = d};
  const Vectors queries = {.data = p.queries.as<float>(), .n = n * h, .d = d, .item_stride = d};
  TransformMoments moments;
  moments.mean = mean_of(rows);
  ThreadPool& pool = *stream.pool();
  moments.covariance = second_moment(rows, moments.mean.data(), {}, pool);
  moments.queries = second_moment(queries, nullptr, {}, pool);
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
    const Vectors of_group = {.data = dual.data() + g * per_group * d,
                              .n = n * per_group,
                              .d = d,
                              .vector_stride = d,
                              .per_item = per_group,
                              .item_stride = h * d};
    VESTIGE_TRY(metric_from_moment(second_moment(of_group, nullptr, {}, pool), g, p));
  }
  return {};
}

}  // namespace vestige::cpu
