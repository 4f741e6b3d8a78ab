#pragma once

#include "vestige/tensor.h"

namespace vestige {

struct KdaCase {
  int64_t t, h, d_k, d_v;
  float decay;      // decays are uniform in [-2 * decay, 0]
  int64_t pad = 0;  // floats after each head of q, k, v, decay and out
};

/// The state is a float32 sum over all tokens.
inline constexpr double kKdaBound = 1e-5;

inline constexpr KdaCase kKdaCases[] = {
    {0, 2, 4, 4, 0.1f},      {1, 1, 1, 1, 0.1f},      {1, 5, 64, 64, 0.1f},     {2, 2, 33, 17, 0.5f, 3},
    {63, 2, 64, 64, 0.05f},  {64, 1, 64, 64, 0.05f},  {65, 3, 64, 48, 0.01f},   {130, 2, 128, 128, 0.02f, 5},
    {300, 1, 16, 100, 0.1f}, {200, 2, 64, 64, 90.0f}, {520, 1, 32, 32, 0.001f},
};

}  // namespace vestige
