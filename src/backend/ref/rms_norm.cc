#include <cmath>

#include "backend/ref/load.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

Status rms_norm(const RmsNormParams& p, Stream&) {
  const int64_t t = p.x.dim(0), d = p.x.dim(1);
  for (int64_t i = 0; i < t; ++i) {
    const float* x = p.x.as<float>() + i * p.x.stride[0];
    float* out = p.out.as<float>() + i * p.out.stride[0];
    double sum = 0;
    for (int64_t c = 0; c < d; ++c) sum += static_cast<double>(x[c]) * static_cast<double>(x[c]);
    const double norm = 1.0 / std::sqrt(sum / static_cast<double>(d) + static_cast<double>(p.eps));
    for (int64_t c = 0; c < d; ++c) {
      double y = static_cast<double>(x[c]) * norm * static_cast<double>(load(p.weight.data, p.weight.dtype, c));
      if (p.gate.data != nullptr) y *= sigmoid(static_cast<double>(p.gate.as<float>()[i * p.gate.stride[0] + c]));
      out[c] = static_cast<float>(y);
    }
  }
  return {};
}

}  // namespace vestige::ref
