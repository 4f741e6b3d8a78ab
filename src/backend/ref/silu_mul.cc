#include "backend/ref/load.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

Status silu_mul(const SiluMulParams& p, Stream&) {
  for (int64_t i = 0; i < p.gate.dim(0); ++i) {
    const float* gate = p.gate.as<float>() + i * p.gate.stride[0];
    const float* up = p.up.as<float>() + i * p.up.stride[0];
    float* out = p.out.as<float>() + i * p.out.stride[0];
    for (int64_t c = 0; c < p.gate.dim(1); ++c) {
      out[c] = static_cast<float>(silu(static_cast<double>(gate[c])) * static_cast<double>(up[c]));
    }
  }
  return {};
}

}  // namespace vestige::ref
