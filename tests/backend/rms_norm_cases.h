#pragma once

#include "vestige/tensor.h"

namespace vestige {

struct RmsNormCase {
  int64_t t, d;
  DType weight;
  bool gate;
  int64_t pad = 0;
  bool in_place = false;
};

inline constexpr double kRmsNormBound = 1e-6;

inline constexpr RmsNormCase kRmsNormCases[] = {
    {0, 8, DType::kF32, false},    {1, 1, DType::kF32, false},           {1, 320, DType::kBF16, false, 0, true},
    {3, 63, DType::kF16, true, 5}, {70, 64, DType::kF32, true, 0, true}, {33, 2304, DType::kBF16, false, 3},
};

}  // namespace vestige
