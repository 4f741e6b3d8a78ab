#include <vector>

#include "backend/ops/top_eigenvectors.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

Status fit_basis(const FitBasisParams& p, Stream&) {
  const int64_t n = p.x.dim(0), d = p.x.dim(1), stride = p.x.stride[0];
  const float* x = p.x.as<float>();
  std::vector<double> mean(static_cast<size_t>(d)), covariance(static_cast<size_t>(d * d));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < d; ++k) mean[static_cast<size_t>(k)] += static_cast<double>(x[i * stride + k]);
  }
  for (double& m : mean) m /= static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < d; ++j) {
      const double left = static_cast<double>(x[i * stride + j]) - mean[static_cast<size_t>(j)];
      for (int64_t k = 0; k <= j; ++k) {
        covariance[static_cast<size_t>(j * d + k)] +=
            left * (static_cast<double>(x[i * stride + k]) - mean[static_cast<size_t>(k)]) / static_cast<double>(n);
      }
    }
  }
  return top_eigenvectors(covariance, p.basis);
}

}  // namespace vestige::ref
