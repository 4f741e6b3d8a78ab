#pragma once

#include "vestige/tensor.h"

namespace vestige {

struct KdaGateCase {
  int64_t t, h, d_k;
  DType dtype;  // of a_log and dt_bias
  float scale;  // of x: softplus is linear above 20, exp below -20
  bool in_place = false;
};

inline constexpr double kKdaGateBound = 1e-6;

inline constexpr KdaGateCase kKdaGateCases[] = {
    {0, 2, 4, DType::kF32, 1},     {1, 1, 1, DType::kF32, 1},    {1, 5, 64, DType::kF32, 4, true},
    {17, 3, 33, DType::kBF16, 60}, {70, 2, 64, DType::kF32, 10},
};

}  // namespace vestige
