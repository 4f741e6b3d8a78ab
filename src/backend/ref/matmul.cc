#include "backend/ref/load.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

Status matmul(const MatmulParams& p, Stream&) {
  const int64_t m = p.x.dim(0), k = p.x.dim(1), n = p.w.dim(0);
  for (int64_t j = 0; j < n; ++j) {
    const std::vector<float> w = load_row(p.w, p.scale, j);
    for (int64_t i = 0; i < m; ++i) {
      const float* x = p.x.as<float>() + i * p.x.stride[0];
      float& out = p.out.as<float>()[i * p.out.stride[0] + j];
      double sum = p.accumulate ? static_cast<double>(out) : 0.0;
      for (int64_t c = 0; c < k; ++c) sum += static_cast<double>(x[c]) * static_cast<double>(w[static_cast<size_t>(c)]);
      out = static_cast<float>(sum);
    }
  }
  return {};
}

}  // namespace vestige::ref
