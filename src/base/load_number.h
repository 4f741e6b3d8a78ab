#pragma once

// One number of a stored array as float, whatever float type it is stored in.

#include <cstdint>

#include "base/half.h"
#include "vestige/tensor.h"

namespace vestige {

/// Element i of `data`, widened exactly (f8e4m3: the code, without its block scale); 0 for types that are no floats.
inline float load_number(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<const float*>(data)[i];
    case DType::kBF16:
      return bf16_to_f32(static_cast<const uint16_t*>(data)[i]);
    case DType::kF16:
      return f16_to_f32(static_cast<const uint16_t*>(data)[i]);
    case DType::kF8E4M3:
      return f8e4m3_to_f32(static_cast<const uint8_t*>(data)[i]);
    default:
      return 0.0f;
  }
}

}  // namespace vestige
