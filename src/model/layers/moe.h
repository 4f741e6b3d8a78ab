#pragma once

// Mixture of experts with a shared expert, as Kimi Linear and the DeepSeek models have it.

#include <optional>
#include <vector>

#include "model/layers/mlp.h"

namespace vestige {

/// What a checkpoint calls the matrices of an expert, and whether its router has e_score_correction_bias.
struct MoeNames {
  const char *gate = "w1", *up = "w3", *down = "w2";
  bool has_bias = true;
};

struct MoeDims {
  int64_t d_model = 0, d_expert = 0;  ///< d_expert: hidden width of one expert
  int32_t n_experts = 0, top_k = 0;
  int32_t n_shared = 0;  ///< shared experts, stored as one MLP of n_shared * d_expert; 0 = none
  int32_t n_groups = 1, topk_group = 1;
  bool renormalize = true;
  float scale = 1.0f;
  RouterActivation activation = RouterActivation::kSigmoid;
  MoeNames names = {};
};

class Moe {
 public:
  /// @param prefix  of gate.weight, gate.e_score_correction_bias, experts.N.* (MoeNames) and shared_experts.*
  static Result<Moe> load(const std::string& prefix, const MoeDims& dims, Weights& weights);
  /// x += moe(x_norm), both [t, d_model] f32.
  Status forward(const ConstTensorView& x_norm, const TensorView& x, const LayerRun& run) const;
  /// Bytes of the experts that one token does not read.
  int64_t idle_bytes() const { return idle_bytes_; }

 private:
  MoeDims dims_;
  Weight router_;
  ConstTensorView bias_;  // empty if the router has none
  std::vector<ExpertWeights> experts_;
  std::optional<Mlp> shared_;
  int64_t idle_bytes_ = 0;
};

}  // namespace vestige
