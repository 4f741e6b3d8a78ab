#include "model/layers/moe.h"

namespace vestige {

Result<Moe> Moe::load(const std::string& prefix, const MoeDims& dims, Weights& weights) {
  Moe out;
  out.dims_ = dims;
  VESTIGE_ASSIGN(out.router_, weights.get(prefix + "gate.weight", {dims.n_experts, dims.d_model}));
  if (dims.names.has_bias) {
    VESTIGE_ASSIGN(out.bias_, weights.get_f32(prefix + "gate.e_score_correction_bias", {dims.n_experts}));
  }
  const int64_t bytes_before = weights.n_bytes();
  for (int32_t e = 0; e < dims.n_experts; ++e) {
    const std::string expert = prefix + "experts." + std::to_string(e) + ".";
    VESTIGE_ASSIGN(const Weight gate, weights.get(expert + dims.names.gate + ".weight", {dims.d_expert, dims.d_model}));
    VESTIGE_ASSIGN(const Weight up, weights.get(expert + dims.names.up + ".weight", {dims.d_expert, dims.d_model}));
    VESTIGE_ASSIGN(const Weight down, weights.get(expert + dims.names.down + ".weight", {dims.d_model, dims.d_expert}));
    out.experts_.push_back({.gate = gate.data,
                            .up = up.data,
                            .down = down.data,
                            .gate_scale = gate.scale,
                            .up_scale = up.scale,
                            .down_scale = down.scale});
  }
  out.idle_bytes_ = (weights.n_bytes() - bytes_before) / dims.n_experts * (dims.n_experts - dims.top_k);
  if (dims.n_shared > 0) {
    VESTIGE_ASSIGN(out.shared_,
                   Mlp::load(prefix + "shared_experts.", dims.d_model, dims.n_shared * dims.d_expert, weights));
  }
  return out;
}

Status Moe::forward(const ConstTensorView& x_norm, const TensorView& x, const LayerRun& run) const {
  const Scratch::Frame frame(run.scratch);
  const int64_t t = x.dim(0);
  VESTIGE_ASSIGN(const TensorView logits, run.scratch.take({t, dims_.n_experts}));
  VESTIGE_ASSIGN(const TensorView ids, run.scratch.take({t, dims_.top_k}, DType::kI32));
  VESTIGE_ASSIGN(const TensorView weights, run.scratch.take({t, dims_.top_k}));
  VESTIGE_TRY(linear(x_norm, router_, logits, run.stream));
  VESTIGE_TRY(ops::route_experts({.logits = logits,
                                  .bias = bias_,
                                  .ids = ids,
                                  .weights = weights,
                                  .n_groups = dims_.n_groups,
                                  .topk_group = dims_.topk_group,
                                  .renormalize = dims_.renormalize,
                                  .scale = dims_.scale,
                                  .activation = dims_.activation},
                                 run.stream));
  VESTIGE_TRY(
      ops::expert_mlp({.x = x_norm, .ids = ids, .weights = weights, .experts = experts_, .out = x}, run.stream));
  return shared_ ? shared_->forward(x_norm, x, run) : Status();
}

}  // namespace vestige
