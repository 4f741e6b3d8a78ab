#pragma once

// Grouped-query attention: h query heads share n_kv keys and values. What is cached, for each key-value head by itself,
// is [value ; key] with the key turned by the token's position already (RowLayout::scored_content = false), so that a
// policy selects the rows of each key-value head on their own.

#include <functional>
#include <span>

#include "model/layers/linear.h"
#include "model/layers/rotation.h"
#include "vestige/cache.h"

namespace vestige {

struct GqaDims {
  int64_t d_model = 0, n_heads = 0, n_kv = 0;  ///< n_kv divides n_heads
  int64_t d_head = 0;                          ///< of queries, keys and values; even
  bool qkv_bias = false, o_bias = false;
  bool qk_norm = false;  ///< RMS norm of each head's query and key before they are turned (Qwen3)
  float eps = 1e-6f;     ///< of qk_norm
  Rotation rotation = {};
  int64_t h_q() const { return n_heads / n_kv; }
};

class GqaLayer {
 public:
  /// @param prefix  of q_proj.weight and its neighbours.
  static Result<GqaLayer> load(const std::string& prefix, const GqaDims& dims, Weights& weights);
  float scale() const;
  int64_t n_caches() const { return dims_.n_kv; }
  RowLayout layout(DType row_dtype) const;
  KeyRotation rotation() const { return {dims_.rotation.frequencies, dims_.rotation.interleaved}; }

  /// x += layer(x_norm), both [t, d_model] f32, with dense attention. The rows of the tokens are appended first, so
  /// that keys are the stored, rounded rows.
  /// @param caches  one a key-value head. @param query_tap  called for each of them, may be empty
  Status prefill(const ConstTensorView& x_norm, const TensorView& x, std::span<LayerCache* const> caches,
                 const std::function<void(size_t kv, const ConstTensorView& q)>& query_tap, const LayerRun& run) const;
  /// The same, each token through LayerCache::attend right after its row.
  Status decode(const ConstTensorView& x_norm, const TensorView& x, std::span<LayerCache* const> caches,
                StepRecord* record, const LayerRun& run) const;
  /// [n, h_q, d_head] -> [n, h_q, d_row]: zeros, then the query (turned already).
  Status absorb(const ConstTensorView& q, const TensorView& absorbed) const;
  /// Model::value_gram of key-value head kv.
  Status value_gram(int64_t kv, const TensorView& gram, Stream& stream) const;

 private:
  /// What the tokens' queries, keys and values are computed into.
  struct Projected {
    TensorView q;     // [t, n_heads, d_head]
    TensorView k, v;  // [t, n_kv, d_head]
  };
  Result<Projected> project(const ConstTensorView& x_norm, int64_t position, const LayerRun& run) const;
  Status add_biases(const Projected& p, const LayerRun& run) const;
  Status rotate(int64_t position, const Projected& p, const LayerRun& run) const;
  Status append(const Projected& p, int64_t first, int64_t n, std::span<LayerCache* const> caches,
                Stream& stream) const;
  Status add_output(const TensorView& heads, const TensorView& x, const LayerRun& run) const;

  GqaDims dims_;
  Weight q_, k_, v_, o_;
  Weight q_bias_, k_bias_, v_bias_, o_bias_;  // [n, 1]; empty without
  ConstTensorView q_norm_, k_norm_;           // empty without qk_norm
};

}  // namespace vestige
