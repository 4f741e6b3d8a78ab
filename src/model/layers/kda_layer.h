#pragma once

// Kimi Delta Attention: projections, short convolution, gates, the delta rule, and a gated norm.

#include <array>

#include "model/layers/linear.h"

namespace vestige {

struct KdaDims {
  int64_t d_model = 0;
  int64_t n_heads = 0, d_head = 0;  ///< d_head is the width of keys and of values
  int64_t n_taps = 0;               ///< of the short convolution
  float eps = 1e-5f;                ///< of the output norm
};

/// What one sequence keeps of one layer.
struct KdaState {
  TensorView conv;   ///< [n_taps - 1, 3 * n_heads * d_head] f32: last inputs of the convolution, [q | k | v] a row
  TensorView state;  ///< [n_heads, d_head, d_head] f32
};

class KdaLayer {
 public:
  /// @param prefix  of q_proj.weight and its neighbours.
  static Result<KdaLayer> load(const std::string& prefix, const KdaDims& dims, Weights& weights);
  /// x += layer(x_norm), both [t, d_model] f32, and `state` advances by t tokens.
  /// @param decode  one token at a time in the recurrence, so that t tokens give the bits of t calls.
  Status forward(const ConstTensorView& x_norm, const TensorView& x, const KdaState& state, bool decode,
                 const LayerRun& run) const;

 private:
  TensorView heads_of(const TensorView& qkv, int64_t part) const;  // [t, h, d] of the q, k or v part
  Status delta_rule(const KdaParams& p, bool decode, Stream& stream) const;
  KdaDims dims_;
  std::array<Weight, 3> qkv_;
  ConstTensorView conv_;  // [3 * n_heads * d_head, n_taps]: one convolution for q, k and v
  Weight f_a_, f_b_, b_, g_a_, g_b_, o_;
  ConstTensorView a_log_, dt_bias_, o_norm_;
};

}  // namespace vestige
