#pragma once

// Kimi Delta Attention: a linear-attention state with one decay per key channel.
// Source: Kimi Linear technical report (arXiv:2510.26692), section 3; transformers `kimi_linear`.

#include "vestige/device.h"
#include "vestige/tensor.h"

namespace vestige {

/// decay = -exp(a_log[h]) * softplus(x + dt_bias), a natural-log decay <= 0; beta = sigmoid(beta).
struct KdaGateParams {
  ConstTensorView x;        ///< [t, h, d_k] f32
  ConstTensorView a_log;    ///< [h] f32 or bf16 (any shape with h elements)
  ConstTensorView dt_bias;  ///< [h * d_k] f32 or bf16
  TensorView decay;         ///< [t, h, d_k] f32, out; may be x
  TensorView beta;          ///< [t, h] f32; logits in, sigmoid out
};
Status kda_gate_check(const KdaGateParams& p);

/// For each token and head, with q, k scaled to unit length (x / sqrt(sum x^2 + 1e-6)) and q times `scale`:
///   S <- diag(exp(decay)) S;   S <- S + k (beta (v - S^T k))^T;   out = S^T q
/// t >= 2 may use a chunked form with chunks of kChunk tokens counted from the call's first token;
/// t = 1 is the plain recurrence. Equal in real arithmetic; bits depend on the chunk borders, not on
/// threads. Callers that want chunk-free bytes start calls at multiples of kChunk.
struct KdaParams {
  static constexpr int64_t kChunk = 64;
  ConstTensorView q;      ///< [t, h, d_k] f32
  ConstTensorView k;      ///< [t, h, d_k] f32
  ConstTensorView v;      ///< [t, h, d_v] f32
  ConstTensorView decay;  ///< [t, h, d_k] f32, <= 0
  ConstTensorView beta;   ///< [t, h] f32, in (0, 1)
  TensorView state;       ///< [h, d_k, d_v] f32, in and out
  TensorView out;         ///< [t, h, d_v] f32
  float scale = 1.0f;     ///< d_k^-0.5 in the model
};
Status kda_check(const KdaParams& p);

}  // namespace vestige
