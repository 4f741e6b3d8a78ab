#pragma once

#include "vestige/tensor.h"

namespace vestige {

struct RotateCase {
  int64_t t, h, d;
  bool interleaved;
  int32_t first = 0;  // position of token 0; the others follow 3 apart
  float scale = 1;
  int64_t pad = 0;
};

inline constexpr double kRotateBound = 1e-6;

inline constexpr RotateCase kRotateCases[] = {
    {0, 2, 4, true},
    {1, 1, 2, false},
    {5, 3, 64, true, 1000},
    {5, 3, 64, false, 65000, 1.3f},
    {7, 1, 22, true, 3, 0.7f, 5},
    {7, 1, 22, false, 3, 1, 3},
    {70, 2, 40, true, 2147483000, 1, 24},
};

}  // namespace vestige
