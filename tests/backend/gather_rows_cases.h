#pragma once

#include "vestige/tensor.h"

namespace vestige {

struct GatherRowsCase {
  int64_t t, v, d;
  DType dtype;
};

inline constexpr double kGatherRowsBound = 0;  // widening is exact

inline constexpr GatherRowsCase kGatherRowsCases[] = {
    {0, 4, 8, DType::kBF16},      {1, 1, 1, DType::kF32},   {5, 300, 257, DType::kF8E4M3}, {40, 19, 33, DType::kF16},
    {33, 600, 320, DType::kBF16}, {3, 2, 0, DType::kF32},   {20, 7, 96, DType::kQ8_0},     {17, 5, 32, DType::kQ4_0},
    {33, 9, 576, DType::kQ4_1},   {5, 6, 512, DType::kQ4K}, {9, 4, 768, DType::kQ6K},
};

}  // namespace vestige
