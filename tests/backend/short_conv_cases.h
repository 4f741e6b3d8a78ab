#pragma once

#include "vestige/tensor.h"

namespace vestige {

struct ShortConvCase {
  int64_t t, n, width;
  DType weight;
  int64_t pad = 0;
};

inline constexpr double kShortConvBound = 1e-6;

inline constexpr ShortConvCase kShortConvCases[] = {
    {0, 5, 4, DType::kF32},     {1, 1, 2, DType::kF32},     {1, 960, 4, DType::kBF16}, {2, 33, 4, DType::kF16, 7},
    {3, 17, 4, DType::kF32, 1}, {100, 65, 4, DType::kBF16}, {300, 3, 7, DType::kF32},
};

}  // namespace vestige
