#include "model/layers/mlp.h"

namespace vestige {

Result<Mlp> Mlp::load(const std::string& prefix, int64_t d_model, int64_t d_ff, Weights& weights) {
  Mlp out;
  out.d_ff_ = d_ff;
  VESTIGE_ASSIGN(out.gate_, weights.get(prefix + "gate_proj.weight", {d_ff, d_model}));
  VESTIGE_ASSIGN(out.up_, weights.get(prefix + "up_proj.weight", {d_ff, d_model}));
  VESTIGE_ASSIGN(out.down_, weights.get(prefix + "down_proj.weight", {d_model, d_ff}));
  return out;
}

Status Mlp::forward(const ConstTensorView& x_norm, const TensorView& x, const LayerRun& run) const {
  const Scratch::Frame frame(run.scratch);
  VESTIGE_ASSIGN(const TensorView gate, run.scratch.take({x.dim(0), d_ff_}));
  VESTIGE_ASSIGN(const TensorView up, run.scratch.take({x.dim(0), d_ff_}));
  VESTIGE_TRY(linear_list({product(x_norm, gate_, gate), product(x_norm, up_, up)}, run.stream));
  VESTIGE_TRY(ops::silu_mul({.gate = gate, .up = up, .out = gate}, run.stream));
  return linear(gate, down_, x, run.stream, true);
}

}  // namespace vestige
