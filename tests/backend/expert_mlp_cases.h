#pragma once

#include "vestige/tensor.h"

namespace vestige {

struct ExpertMlpCase {
  int64_t t, d, d_ff, experts, top_k;
  DType dtype;
  int64_t pad = 0;
};

inline constexpr double kExpertMlpBound = 3e-6;

inline constexpr ExpertMlpCase kExpertMlpCases[] = {
    {0, 8, 8, 2, 1, DType::kF32},         {1, 1, 1, 1, 1, DType::kF32},        {1, 320, 129, 8, 2, DType::kBF16},
    {8, 33, 17, 4, 3, DType::kF16, 3},    {9, 33, 17, 4, 3, DType::kBF16, 3},  {150, 64, 130, 3, 2, DType::kBF16},
    {70, 130, 64, 16, 4, DType::kF32, 1}, {3, 130, 257, 4, 2, DType::kF8E4M3}, {90, 257, 130, 4, 3, DType::kF8E4M3, 1},
};

}  // namespace vestige
