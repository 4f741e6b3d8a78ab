#pragma once

// Element access of the oracle: any float dtype, widened exactly.

#include <cmath>
#include <vector>

#include "base/block_codes.h"
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

/// Row `row` of a weight as k floats.
inline std::vector<float> load_row(const ConstTensorView& w, const ConstTensorView& scale, int64_t row) {
  std::vector<float> out(static_cast<size_t>(w.dim(1)));
  if (dtype_block(w.dtype).plain()) {
    for (int64_t c = 0; c < w.dim(1); ++c) out[static_cast<size_t>(c)] = load_weight(w, scale, row, c);
  } else {
    decode_blocks(w.dtype, w.as<std::byte>() + stored_bytes(w.dtype, row * w.stride[0]), w.dim(1), out.data());
  }
  return out;
}

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }

}  // namespace vestige::ref
