#pragma once

// What one layer of coded tokens takes, to the byte, and how many residuals a compression ratio buys: AnchorKV
// (arXiv:2608.02901), Table 1, Eq. 9 and 13, and leaner layouts of our own. Derivation: docs/policies/anchor.md.

#include <cstdint>
#include <vector>

#include "vestige/status.h"

namespace vestige::anchor {

/// Bytes of one element of each array of a coded layer.
struct CodeLayout {
  int32_t index_bytes = 2;            ///< nearest anchor of a token: 1 or 2
  int32_t gamma_bytes = 2;            ///< its coefficient: 2 = bf16, 1 = logarithmic (gamma.h)
  int32_t scale_bytes = 4;            ///< of a residual: 4 = f32, 2 = f16
  int32_t anchor_position_bytes = 8;  ///< of a selected anchor: 8 or 4
  int32_t position_id_bytes = 4;      ///< of a token, shared by the heads: 4, or 0 = counted from the first token
  int32_t key_bound_bytes = 0;        ///< error bound of a token and head: 0 or 1
  int32_t value_bound_bytes = 0;
  int32_t sketch_bytes = 0;  ///< of a key's sketch, beside a gain of one byte (key_sketch.h); needs key bounds; 0 to d
  int32_t bits = 2;          ///< of a residual's coordinate: 2, 3 or 4
  bool operator==(const CodeLayout&) const = default;
};

/// As the paper counts: Table 1.
CodeLayout paper_layout();
/// One-byte index where it suffices, one-byte gamma, f16 scale, implicit positions, 32-bit anchor positions.
CodeLayout lean_layout(int64_t n_anchors);

/// The sizes of one layer. The last `window` tokens are anchors of every head and nothing else; all earlier ones are
/// *coded*, the selected anchors among them too (with gamma = 1), but those are no candidates for a residual.
struct LayerShape {
  int64_t n_tokens = 0;   ///< at most 2^31 - 1
  int64_t window = 32;    ///< 0 to n_tokens
  int64_t n_anchors = 0;  ///< a head, window included; window (1 at least) to min(n_tokens, 65536)
  int64_t n_heads = 0;    ///< KV heads, 1 to 4096
  int64_t d = 0;          ///< width of a key and of a value: a power of two from 8 to 4096

  int64_t n_coded() const { return n_tokens - window; }
  int64_t n_selected() const { return n_anchors - window; }
  int64_t n_candidates() const { return n_heads * (n_coded() - n_selected()); }  ///< of one side, over all heads
  int64_t n_words() const { return (n_coded() + 63) / 64; }                      ///< of a head's residual mask
  bool operator==(const LayerShape&) const = default;
};

/// The paper's number of anchors, n_tokens / 128, but the window at least.
int64_t default_anchors(int64_t n_tokens, int64_t window);

/// One array of a coded layer.
struct ArrayBytes {
  const char* name;
  int64_t n_bytes;
};

struct BytePlan {
  LayerShape shape;
  CodeLayout layout;
  int64_t full_bytes = 0;    ///< every key and value at 16 bits
  int64_t budget_bytes = 0;  ///< floor(full_bytes / ratio)
  int64_t n_key = 0;         ///< residuals over all heads of the layer
  int64_t n_value = 0;

  int64_t n_residuals() const { return n_key + n_value; }
  /// Every array; their sum is total_bytes().
  std::vector<ArrayBytes> arrays() const;
  int64_t total_bytes() const;
  int64_t base_bytes() const;  ///< the same without residuals
  /// Bytes of one residual of either side.
  int64_t key_residual_bytes() const;
  int64_t value_residual_bytes() const;
  /// Share of the coded tokens, heads and sides that carry a residual.
  double density() const;
  /// Full over compressed bytes once `n_dense` more tokens lie behind the coded ones at 16 bits.
  double ratio_after(int64_t n_dense) const;
};

/// The residuals that full_bytes / ratio buys, half of them to either side (an odd one to the values).
/// @param ratio >= 1
/// @return InvalidArgument for a shape or layout out of range, and for a ratio that even no residuals would not reach
///         (the message names the highest one); no overflow for any input.
Result<BytePlan> plan_bytes(const LayerShape& shape, const CodeLayout& layout, double ratio);

/// The same with the residuals given: the bytes that they take must fit into full_bytes / ratio.
Result<BytePlan> plan_bytes(const LayerShape& shape, const CodeLayout& layout, double ratio, int64_t n_key,
                            int64_t n_value);

}  // namespace vestige::anchor
