#pragma once

// SwiGLU feed-forward: down(silu(gate x) * up x).

#include "model/layers/linear.h"

namespace vestige {

class Mlp {
 public:
  /// @param prefix  of gate_proj.weight, up_proj.weight and down_proj.weight.
  static Result<Mlp> load(const std::string& prefix, int64_t d_model, int64_t d_ff, Weights& weights);
  /// x += mlp(x_norm), both [t, d_model] f32.
  Status forward(const ConstTensorView& x_norm, const TensorView& x, const LayerRun& run) const;

 private:
  int64_t d_ff_ = 0;
  Weight gate_, up_, down_;
};

}  // namespace vestige
