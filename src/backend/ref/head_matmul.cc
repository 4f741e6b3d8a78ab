#include "backend/ref/load.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

Status head_matmul(const HeadMatmulParams& p, Stream&) {
  const int64_t t = p.x.dim(0), h = p.x.dim(1), k = p.x.dim(2), n = p.out.dim(2);
  const int64_t step_n = p.transposed ? 1 : p.w.stride[1], step_k = p.transposed ? p.w.stride[1] : 1;
  for (int64_t i = 0; i < t; ++i) {
    for (int64_t head = 0; head < h; ++head) {
      const float* x = p.x.as<float>() + i * p.x.stride[0] + head * p.x.stride[1];
      float* out = p.out.as<float>() + i * p.out.stride[0] + head * p.out.stride[1];
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t c = 0; c < k; ++c) {
          const float w = load(p.w.data, p.w.dtype, head * p.w.stride[0] + j * step_n + c * step_k);
          sum += static_cast<double>(x[c]) * static_cast<double>(w);
        }
        out[j] = static_cast<float>(sum);
      }
    }
  }
  return {};
}

}  // namespace vestige::ref
