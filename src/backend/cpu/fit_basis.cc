#include <algorithm>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/sgemm.h"
#include "backend/cpu/tiles.h"
#include "backend/ops/top_eigenvectors.h"
#include "base/thread_pool.h"

namespace vestige::cpu {

namespace {

// Samples are added up in runs of this many, each by one task, and the runs in order.
constexpr int64_t kRunRows = 1024;
constexpr int64_t kMaxRuns = 8;

}  // namespace

Status fit_basis(const FitBasisParams& p, Stream& stream) {
  const int64_t n = p.x.dim(0), d = p.x.dim(1), stride = p.x.stride[0];
  const float* x = p.x.as<float>();
  std::vector<double> mean(static_cast<size_t>(d));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < d; ++k) mean[static_cast<size_t>(k)] += static_cast<double>(x[i * stride + k]);
  }
  for (double& m : mean) m /= static_cast<double>(n);
  const int64_t n_runs = std::min(kMaxRuns, ceil_div(n, kRunRows)), per_run = ceil_div(n, n_runs);
  std::vector<std::vector<double>> parts(static_cast<size_t>(n_runs));
  std::vector<std::vector<double>> centred(static_cast<size_t>(n_runs));
  for (auto& part : parts) part.assign(static_cast<size_t>(d * d), 0.0);
  for (auto& block : centred) block.resize(static_cast<size_t>(std::min(kRunRows, per_run) * d));
  stream.pool()->run(n_runs, [&](int64_t run, int32_t) {
    double* rows = centred[static_cast<size_t>(run)].data();
    const int64_t end = std::min(n, (run + 1) * per_run);
    for (int64_t begin = run * per_run; begin < end; begin += kRunRows) {
      const int64_t count = std::min(kRunRows, end - begin);
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t k = 0; k < d; ++k) {
          rows[i * d + k] = static_cast<double>(x[(begin + i) * stride + k]) - mean[static_cast<size_t>(k)];
        }
      }
      add_dsyrk({.n = d,
                 .k = count,
                 .a = rows,
                 .a_stride = d,
                 .out = parts[static_cast<size_t>(run)].data(),
                 .out_stride = d});
    }
  });
  std::vector<double>& covariance = parts[0];
  for (int64_t run = 1; run < n_runs; ++run) {
    for (size_t i = 0; i < covariance.size(); ++i) covariance[i] += parts[static_cast<size_t>(run)][i];
  }
  for (double& c : covariance) c /= static_cast<double>(n);
  return top_eigenvectors(covariance, p.basis);
}

}  // namespace vestige::cpu
