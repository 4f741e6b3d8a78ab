#pragma once

#include "vestige/tensor.h"

namespace vestige {

struct HeadMatmulCase {
  int64_t t, h, k, n;
  DType dtype;
  bool transposed;
  int64_t pad = 0;  // floats after each head of x and out, elements after each head of w
};

inline constexpr double kHeadMatmulBound = 2e-6;

inline constexpr HeadMatmulCase kHeadMatmulCases[] = {
    {0, 2, 3, 4, DType::kBF16, false},     {1, 1, 1, 1, DType::kF32, true},        {1, 5, 64, 128, DType::kBF16, true},
    {3, 2, 33, 17, DType::kF16, false, 3}, {9, 3, 65, 131, DType::kBF16, true, 5}, {17, 2, 128, 40, DType::kF32, false},
    {2, 2, 0, 3, DType::kF32, true},       {2, 4, 128, 512, DType::kF16, true},    {8, 4, 512, 64, DType::kBF16, false},
};

}  // namespace vestige
