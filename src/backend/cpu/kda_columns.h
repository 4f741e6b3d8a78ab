#pragma once

#include <cstdint>

namespace vestige::cpu {

/// Some columns of one head's state, over t tokens.
struct KdaColumns {
  float* state = nullptr;  ///< [d_k, .] at the first column
  int64_t state_stride = 0, d_k = 0, t = 0;
  const float* keys = nullptr;  ///< [t, 3, d_k]: decay factors, unit k, unit q times scale
  const float* v = nullptr;     ///< at the first column; likewise out
  const float* beta = nullptr;
  float* out = nullptr;
  int64_t v_stride = 0, beta_stride = 0, out_stride = 0;  ///< from one token to the next
};

}  // namespace vestige::cpu
