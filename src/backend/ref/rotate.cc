#include <cmath>

#include "backend/ref/ref_ops.h"

namespace vestige::ref {

Status rotate(const RotateParams& p, Stream&) {
  const int64_t n_pairs = p.x.dim(2) / 2, step = p.interleaved ? 2 : 1, apart = p.interleaved ? 1 : n_pairs;
  for (int64_t i = 0; i < p.x.dim(0); ++i) {
    const auto position = static_cast<float>(p.positions.as<int32_t>()[i]);
    for (int64_t j = 0; j < n_pairs; ++j) {
      const float angle = position * p.frequencies.as<float>()[j];
      const double c = std::cos(static_cast<double>(angle)), s = std::sin(static_cast<double>(angle));
      for (int64_t h = 0; h < p.x.dim(1); ++h) {
        float* x = p.x.as<float>() + i * p.x.stride[0] + h * p.x.stride[1] + j * step;
        const double a = static_cast<double>(x[0]), b = static_cast<double>(x[apart]);
        x[0] = static_cast<float>(static_cast<double>(p.scale) * (a * c - b * s));
        x[apart] = static_cast<float>(static_cast<double>(p.scale) * (a * s + b * c));
      }
    }
  }
  return {};
}

}  // namespace vestige::ref
