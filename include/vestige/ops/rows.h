#pragma once

// Small row-wise ops of a transformer layer. All arithmetic is float32; all are deterministic, and a
// row's bits depend on that row alone.

#include "vestige/device.h"
#include "vestige/tensor.h"

namespace vestige {

/// out[i] = table[ids[i]], widened to f32 (token embedding).
/// @return InvalidArgument if an id is outside [0, v).
struct GatherRowsParams {
  ConstTensorView table;       ///< [v, d] f32, bf16, f16, f8e4m3 or blocks of codes
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

/// Rotary position embedding, in place: pair j of every head of token i is turned by the angle
/// positions[i] * frequencies[j] (a float32 product, as in the code that models are trained with) and stretched by
/// `scale`:  (a, b) -> scale * (a cos - b sin, a sin + b cos).
/// Source: RoFormer (arXiv:2104.09864); the stretch is YaRN's attention factor (arXiv:2309.00071).
struct RotateParams {
  TensorView x;                 ///< [t, h, d] f32, d even; in and out; strides free
  ConstTensorView positions;    ///< [t] i32, >= 0
  ConstTensorView frequencies;  ///< [d / 2] f32, radians a position
  float scale = 1.0f;           ///< finite, > 0
  bool interleaved = true;      ///< pair j is x[2j], x[2j + 1]; else x[j], x[j + d / 2]
};
Status rotate_check(const RotateParams& p);

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
