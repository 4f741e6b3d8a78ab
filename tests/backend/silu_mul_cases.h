#pragma once

#include "vestige/tensor.h"

namespace vestige {

struct SiluMulCase {
  int64_t t, n;
  float scale;  // of the gate: large ones saturate the sigmoid
  int64_t pad = 0;
  bool in_place = false;
};

inline constexpr double kSiluMulBound = 1e-6;

inline constexpr SiluMulCase kSiluMulCases[] = {
    {0, 4, 1}, {1, 1, 1}, {1, 1024, 8, 0, true}, {7, 33, 200, 3}, {129, 77, 20}, {3, 16, 1e30f},
};

}  // namespace vestige
