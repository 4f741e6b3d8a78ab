#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/second_moment.h"
#include "backend/ops/top_eigenvectors.h"

namespace vestige::cpu {

Status fit_basis(const FitBasisParams& p, Stream& stream) {
  const Vectors x = {.data = p.x.as<float>(), .n = p.x.dim(0), .d = p.x.dim(1), .item_stride = p.x.stride[0]};
  const std::vector<double> mean = mean_of(x);
  std::vector<double> covariance = second_moment(x, mean.data(), {.rows = 1024, .most = 8}, *stream.pool());
  return top_eigenvectors(covariance, p.basis);
}

}  // namespace vestige::cpu
