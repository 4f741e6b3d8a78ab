#pragma once

// A weight matrix as kernels see it: rows of one stored dtype.

#include "vestige/tensor.h"

namespace vestige::cpu {

// Stored element types; the dtype picks one at run time.
struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};
struct F8 {
  uint8_t bits;
};

/// Columns and rows that share one scale of an f8e4m3 weight.
inline constexpr int64_t kScaleBlock = 128;

struct Weight {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t n = 0, k = 0, stride = 0;
  const float* scale = nullptr;  ///< f8e4m3 only
  int64_t scale_stride = 0;

  static Weight of(const ConstTensorView& w, const ConstTensorView& scale = {}) {
    return {w.data, w.dtype, w.dim(0), w.dim(1), w.stride[0], scale.as<float>(), scale.rank == 2 ? scale.dim(1) : 0};
  }
  int64_t row_bytes() const { return k * static_cast<int64_t>(dtype_bytes(dtype)); }
};

/// Calls f(T{}) with the stored element type of `dtype`.
template <class F>
void with_element(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kBF16:
      f(Bf16{});
      break;
    case DType::kF16:
      f(F16{});
      break;
    case DType::kF8E4M3:
      f(F8{});
      break;
    default:
      f(float{});
      break;
  }
}

}  // namespace vestige::cpu
