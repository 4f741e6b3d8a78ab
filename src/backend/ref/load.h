#pragma once

// Element access of the oracle: any float dtype, widened exactly.

#include <cmath>

#include "base/load_number.h"
#include "vestige/tensor.h"

namespace vestige::ref {

inline float load(const void* data, DType dtype, int64_t i) { return load_number(data, dtype, i); }

/// Element (row, col) of a weight, with the block scale of f8e4m3 (rounded to float32, as every backend does).
inline float load_weight(const ConstTensorView& w, const ConstTensorView& scale, int64_t row, int64_t col) {
  const float value = load(w.data, w.dtype, row * w.stride[0] + col);
  if (w.dtype != DType::kF8E4M3) return value;
  return value * scale.as<float>()[row / 128 * scale.dim(1) + col / 128];
}

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }

}  // namespace vestige::ref
