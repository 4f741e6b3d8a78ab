#pragma once

// Multi-head latent attention: rows [rmsnorm(c) ; r] are cached, keys and values are made of them (prefill), or
// queries are brought to them (decode, absorbed form). Without positions, or with r and its part of the query turned
// by the token's position: what is cached is then the turned branch.

#include <functional>

#include "model/layers/linear.h"
#include "model/layers/rotation.h"
#include "vestige/cache.h"

namespace vestige {

struct MlaDims {
  int64_t d_model = 0, n_heads = 0;
  int64_t d_content = 0, d_branch = 0;  ///< of a row: kv_lora_rank, qk_rope_head_dim
  int64_t d_nope = 0, d_v = 0;
  int64_t d_q_latent = 0;  ///< q_lora_rank: width that queries are squeezed through; 0 = none
  Rotation rotation = {};
  int64_t d_q() const { return d_nope + d_branch; }
  int64_t d_row() const { return d_content + d_branch; }
};

class MlaLayer {
 public:
  /// @param prefix  of q_proj.weight (or q_a_proj, q_a_layernorm and q_b_proj) and its neighbours.
  static Result<MlaLayer> load(const std::string& prefix, const MlaDims& dims, Weights& weights);
  float scale() const;

  /// x += layer(x_norm), both [t, d_model] f32, with dense attention. The rows of the tokens are appended first,
  /// so that keys are the stored, rounded rows. `query_tap` may be empty.
  Status prefill(const ConstTensorView& x_norm, const TensorView& x, LayerCache& cache,
                 const std::function<void(const ConstTensorView& q)>& query_tap, const LayerRun& run) const;
  /// The same, each token through LayerCache::attend right after its row.
  Status decode(const ConstTensorView& x_norm, const TensorView& x, LayerCache& cache, StepRecord* record,
                const LayerRun& run) const;
  /// [n, h, d_nope + d_branch] -> [n, h, d_content + d_branch]: W_UK^T on the first part, the branch (turned already)
  /// as it is.
  Status absorb(const ConstTensorView& q, const TensorView& absorbed, Stream& stream) const;
  /// Model::value_gram of this layer.
  Status value_gram(const TensorView& gram, Stream& stream) const;

 private:
  /// Queries and rows of the tokens from `position` on, branches turned.
  Status project(const ConstTensorView& x_norm, int64_t position, const TensorView& q, const TensorView& rows,
                 const LayerRun& run) const;
  Status rotate(int64_t position, const TensorView& q, const TensorView& rows, const LayerRun& run) const;
  MlaDims dims_;
  Weight q_, kv_a_, o_;
  Weight q_a_;  // empty without d_q_latent; q_ then reads its output
  ConstTensorView q_a_norm_, kv_a_norm_;
  ConstTensorView w_uk_, w_uv_;  // [h, d_nope, d_content] and [h, d_v, d_content], both inside kv_b_proj
};

}  // namespace vestige
