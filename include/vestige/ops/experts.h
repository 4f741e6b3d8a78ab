#pragma once

// Mixture of experts as in DeepSeek-V3 and Kimi Linear: a sigmoid router with a correction bias that
// steers the choice but not the weight, groups, and SwiGLU experts.

#include <span>

#include "vestige/device.h"
#include "vestige/tensor.h"

namespace vestige {

enum class RouterActivation : uint8_t { kSigmoid, kSoftmax };

/// score = activation(logits); choice by score + bias: the groups with the largest sum of their two best
/// are kept (topk_group of n_groups), then the top_k experts in them, even where all of those score below 0 (dropped
/// ones count as -inf, as in transformers 5.24's kimi_linear; code after DeepSeek-V3 that fills in 0 differs there);
/// weight = score of the chosen, divided by their sum if `renormalize`, times `scale`. Ties go to the lower index.
struct RouteExpertsParams {
  ConstTensorView logits;     ///< [t, e] f32
  ConstTensorView bias = {};  ///< [e] f32, or empty
  TensorView ids;             ///< [t, top_k] i32, out, ordered by choice
  TensorView weights;         ///< [t, top_k] f32, out
  int32_t n_groups = 1;       ///< divides e
  int32_t topk_group = 1;     ///< in [1, n_groups]
  bool renormalize = true;
  float scale = 1.0f;
  RouterActivation activation = RouterActivation::kSigmoid;
};
Status route_experts_check(const RouteExpertsParams& p);

/// Weights of one SwiGLU expert: down(silu(gate x) * up x). f32, bf16, f16, or f8e4m3 with block scales as in matmul.
struct ExpertWeights {
  ConstTensorView gate, up;                        ///< [d_ff, d]
  ConstTensorView down;                            ///< [d, d_ff]
  ConstTensorView gate_scale = {}, up_scale = {};  ///< [ceil(d_ff / 128), ceil(d / 128)] f32; f8e4m3 only
  ConstTensorView down_scale = {};                 ///< [ceil(d / 128), ceil(d_ff / 128)] f32; f8e4m3 only
};

/// out[i] += sum_j weights[i, j] * expert[ids[i, j]](x[i]), summed in the order of j.
struct ExpertMlpParams {
  ConstTensorView x;        ///< [t, d] f32
  ConstTensorView ids;      ///< [t, top_k] i32, in [0, experts.size())
  ConstTensorView weights;  ///< [t, top_k] f32
  std::span<const ExpertWeights> experts;
  TensorView out;  ///< [t, d] f32, in and out
};
Status expert_mlp_check(const ExpertMlpParams& p);

}  // namespace vestige
