#include "backend/cpu/second_moment.h"

#include <algorithm>
#include <utility>

#include "backend/cpu/sgemm.h"
#include "backend/cpu/tiles.h"

namespace vestige::cpu {

std::vector<double> mean_of(const Vectors& x) {
  std::vector<double> mean(static_cast<size_t>(x.d));
  for (int64_t i = 0; i < x.n; ++i) {
    for (int64_t k = 0; k < x.d; ++k) mean[static_cast<size_t>(k)] += static_cast<double>(x.at(i)[k]);
  }
  for (double& m : mean) m /= static_cast<double>(x.n);
  return mean;
}

std::vector<double> second_moment(const Vectors& x, const double* mean, MomentRuns runs, ThreadPool& pool) {
  const int64_t d = x.d, n_runs = std::min(runs.most, ceil_div(x.n, runs.rows)), per_run = ceil_div(x.n, n_runs);
  std::vector<std::vector<double>> parts(static_cast<size_t>(n_runs)), rows(static_cast<size_t>(n_runs));
  for (auto& part : parts) part.assign(static_cast<size_t>(d * d), 0.0);
  for (auto& block : rows) block.resize(static_cast<size_t>(std::min(runs.rows, per_run) * d));
  pool.run(n_runs, [&](int64_t run, int32_t) {
    double* block = rows[static_cast<size_t>(run)].data();
    const int64_t end = std::min(x.n, (run + 1) * per_run);
    for (int64_t begin = run * per_run; begin < end; begin += runs.rows) {
      const int64_t count = std::min(runs.rows, end - begin);
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

}  // namespace vestige::cpu
