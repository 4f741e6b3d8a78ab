#pragma once

// Small row-wise ops of a transformer layer. All arithmetic is float32; all are deterministic, and a
// row's bits depend on that row alone.

#include "vestige/device.h"
#include "vestige/tensor.h"

namespace vestige {

/// out[i] = table[ids[i]], widened to f32 (token embedding).
/// @return InvalidArgument if an id is outside [0, v).
struct GatherRowsParams {
  ConstTensorView table;       ///< [v, d] f32, bf16, f16 or f8e4m3
  ConstTensorView scale = {};  ///< f8e4m3 only, as in matmul
  ConstTensorView ids;         ///< [t] i32
  TensorView out;              ///< [t, d] f32
};
Status gather_rows_check(const GatherRowsParams& p);

/// out = x / sqrt(mean(x^2) + eps) * weight (* sigmoid(gate) if a gate is given).
struct RmsNormParams {
  ConstTensorView x;          ///< [t, d] f32; row stride free
  ConstTensorView weight;     ///< [d] f32, bf16 or f16
  ConstTensorView gate = {};  ///< empty, or [t, d] f32
  TensorView out;             ///< [t, d] f32; row stride free; may be x itself
  float eps = 1e-5f;          ///< > 0
};
Status rms_norm_check(const RmsNormParams& p);

/// out = gate * sigmoid(gate) * up.
struct SiluMulParams {
  ConstTensorView gate;  ///< [t, n] f32; row stride free
  ConstTensorView up;    ///< [t, n] f32; row stride free
  TensorView out;        ///< [t, n] f32; may be gate or up
};
Status silu_mul_check(const SiluMulParams& p);

/// Causal depthwise convolution over time, then SiLU:
///   out[i, c] = silu(sum_j weight[c, j] * x[i - width + 1 + j, c])
/// Inputs before the first token of the call come from `state`, which is advanced by t tokens.
struct ShortConvParams {
  ConstTensorView x;       ///< [t, n] f32; row stride free
  ConstTensorView weight;  ///< [n, width] f32, bf16 or f16; width >= 2
  TensorView state;        ///< [width - 1, n] f32, oldest first; in and out
  TensorView out;          ///< [t, n] f32; must not overlap x
};
Status short_conv_check(const ShortConvParams& p);

}  // namespace vestige
