#pragma once

// Mixture of experts as in DeepSeek-V3 and Kimi Linear: a sigmoid router with a correction bias that
// steers the choice but not the weight, groups, and SwiGLU experts.

#include <span>

#include "vestige/device.h"
#include "vestige/tensor.h"

namespace vestige {

enum class RouterActivation : uint8_t { kSigmoid, kSoftmax };

/// score = activation(logits); choice by score + bias: the groups with the largest sum of their two best
/// are kept (topk_group of n_groups), then the top_k experts in them; weight = score of the chosen,
/// divided by their sum if `renormalize`, times `scale`. Ties go to the lower index.
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

/// Weights of one SwiGLU expert: down(silu(gate x) * up x).
struct ExpertWeights {
  ConstTensorView gate, up;  ///< [d_ff, d]
  ConstTensorView down;      ///< [d, d_ff]
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
