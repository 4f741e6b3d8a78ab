#include <algorithm>
#include <cmath>

#include "backend/ref/load.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

Status kda_gate(const KdaGateParams& p, Stream&) {
  const int64_t t = p.x.dim(0), h = p.x.dim(1), d_k = p.x.dim(2);
  for (int64_t i = 0; i < t; ++i) {
    for (int64_t head = 0; head < h; ++head) {
      const double rate = std::exp(static_cast<double>(load(p.a_log.data, p.a_log.dtype, head)));
      const float* x = p.x.as<float>() + i * p.x.stride[0] + head * p.x.stride[1];
      float* decay = p.decay.as<float>() + i * p.decay.stride[0] + head * p.decay.stride[1];
      for (int64_t c = 0; c < d_k; ++c) {
        const double z =
            static_cast<double>(x[c]) + static_cast<double>(load(p.dt_bias.data, p.dt_bias.dtype, head * d_k + c));
        decay[c] = static_cast<float>(-rate * (std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)))));
      }
      float* beta = p.beta.as<float>() + i * p.beta.stride[0] + head;
      *beta = static_cast<float>(sigmoid(static_cast<double>(*beta)));
    }
  }
  return {};
}

}  // namespace vestige::ref
