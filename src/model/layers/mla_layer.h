#pragma once

// Multi-head latent attention without positions: rows [rmsnorm(c) ; r] are cached, keys and values are made of
// them (prefill), or queries are brought to them (decode, absorbed form).

#include <functional>

#include "model/layers/linear.h"
#include "vestige/cache.h"

namespace vestige {

struct MlaDims {
  int64_t d_model = 0, n_heads = 0;
  int64_t d_content = 0, d_branch = 0;  ///< of a row: kv_lora_rank, qk_rope_head_dim
  int64_t d_nope = 0, d_v = 0;
  int64_t d_q() const { return d_nope + d_branch; }
  int64_t d_row() const { return d_content + d_branch; }
};

class MlaLayer {
 public:
  /// @param prefix  of q_proj.weight and its neighbours.
  static Result<MlaLayer> load(const std::string& prefix, const MlaDims& dims, Weights& weights);
  float scale() const;

  /// x += layer(x_norm), both [t, d_model] f32, with dense attention. The rows of the tokens are appended first,
  /// so that keys are the stored, rounded rows. `query_tap` may be empty.
  Status prefill(const ConstTensorView& x_norm, const TensorView& x, LayerCache& cache,
                 const std::function<void(const ConstTensorView& q)>& query_tap, const LayerRun& run) const;
  /// The same, each token through LayerCache::attend right after its row.
  Status decode(const ConstTensorView& x_norm, const TensorView& x, LayerCache& cache, StepRecord* record,
                const LayerRun& run) const;
  /// [n, h, d_nope + d_branch] -> [n, h, d_content + d_branch]: W_UK^T on the first part, the branch as it is.
  Status absorb(const ConstTensorView& q, const TensorView& absorbed, Stream& stream) const;
  /// Model::value_gram of this layer.
  Status value_gram(const TensorView& gram, Stream& stream) const;

 private:
  Status project(const ConstTensorView& x_norm, const TensorView& q, const TensorView& rows, Stream& stream) const;
  MlaDims dims_;
  Weight q_, kv_a_, o_;
  ConstTensorView kv_a_norm_;
  ConstTensorView w_uk_, w_uv_;  // [h, d_nope, d_content] and [h, d_v, d_content], both inside kv_b_proj
};

}  // namespace vestige
