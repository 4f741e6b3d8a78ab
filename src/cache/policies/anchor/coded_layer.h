#pragma once

// The tokens of one layer as AnchorKV stores them: for every KV head anchors, and for every token before the window an
// index, a coefficient and perhaps a residual on either side. The arrays take the bytes of the plan, no more.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cache/policies/anchor/byte_plan.h"
#include "cache/policies/anchor/choose_anchors.h"
#include "cache/policies/anchor/key_sketch.h"
#include "cache/policies/anchor/pick_residuals.h"
#include "vestige/device.h"
#include "vestige/ops.h"

namespace vestige::anchor {

/// Keys or values of all heads.
struct CodedSide {
  std::vector<uint16_t> anchors;  ///< [h, k, d] bf16, by rising position: the window's come last
  std::vector<uint8_t> index;     ///< [h, n, index_bytes]
  std::vector<uint8_t> gamma;     ///< [h, n, gamma_bytes]
  /// [h, n] or empty: >= || token - coded token - its sketch ||, and what float32 attention over it rounds; on the grid
  /// kBoundBase 2^(b / 16), 255 = no bound.
  std::vector<uint8_t> bound;
  std::vector<int64_t> mask;    ///< [h, n_words]
  std::vector<int32_t> prefix;  ///< [h, n_words]
  std::vector<int32_t> offset;  ///< [h + 1]: first residual of a head, then all of them
  std::vector<uint8_t> codes;   ///< [n_residuals, d bits / 8]
  std::vector<uint8_t> scale;   ///< [n_residuals, scale_bytes]
  std::vector<uint8_t> slot;    ///< values: [n_residuals] place of the token in its word; keys: empty

  AnchoredSide view(const BytePlan& plan, int64_t head) const;
  int64_t n_bytes() const;
};

struct CodedLayer {
  static constexpr float kBoundBase = 0x1p-7f;
  BytePlan plan;
  uint64_t rotation_seed = 0;             ///< of the residual codes
  std::vector<uint8_t> anchor_positions;  ///< [h, k - window, anchor_position_bytes], little-endian, ascending
  std::vector<int32_t> position_ids;      ///< [n], or empty: 0, 1, ...
  CodedSide key, value;
  KeySketch sketch;

  AnchoredHead head(int64_t h) const { return {key.view(plan, h), value.view(plan, h)}; }
  int64_t anchor_position(int64_t h, int64_t i) const;
  int64_t n_bytes() const;  ///< plan.total_bytes()
};

/// One KV head.
struct HeadTokens {
  ConstTensorView key;    ///< [n_tokens, d] f32 or bf16, not turned; row stride free
  ConstTensorView value;  ///< likewise
  ConstTensorView q;      ///< [m, d] f32: observed queries of all its query heads, turned to their positions
};

struct LayerTokens {
  std::span<const HeadTokens> heads;
  ConstTensorView q_positions;       ///< [m] i32: query w sees the tokens up to its position
  ConstTensorView frequencies = {};  ///< as AttendAnchoredParams
  bool interleaved = true;
  float scale = 1.0f;
  int64_t n_tokens = 0;  ///< the first so many are coded, window included; the queries see all of them. 0 = all
};

struct CodeSettings {
  CodeLayout layout;
  double ratio = 20;
  int64_t window = 32;
  int64_t n_anchors = 0;                    ///< a head; 0 = default_anchors()
  double rho = 0.7;                         ///< share of the selected anchors by score
  AnchorRule anchors = AnchorRule::kDrawn;  ///< the rest
  int64_t n_near = 0;                       ///< rows this near to a query have no weight in scores and utilities
  std::string utility = "first_order";
  PickSettings pick;
  uint64_t seed = 0;  ///< of this layer: random anchors, random utilities
  uint64_t rotation_seed = 42;
};

/// Codes all tokens before the window. Same bytes for any number of threads.
/// @return InvalidArgument for what plan_bytes refuses, and for shapes that disagree
Result<CodedLayer> code_layer(const LayerTokens& tokens, const CodeSettings& settings, Stream& stream);

/// The same in two halves. The first: all but the residuals, and what each of them is worth.
struct BareLayer {
  CodedLayer layer;                                            ///< its plan counts the residuals to come
  std::vector<std::vector<uint8_t>> is_anchor;                 ///< [h][n]
  std::vector<std::vector<float>> key_utility, value_utility;  ///< [h][n]
  std::vector<std::vector<float>> key_cosine;                  ///< [h][n] to its anchor, without sign; 1 if it has none
  std::vector<double> value_variance;                          ///< [h] mean || V_t - mean V ||^2
};
Result<BareLayer> code_bare(const LayerTokens& tokens, const CodeSettings& settings, Stream& stream);

/// The residuals that settings and plan want.
ResidualPick pick_own(const BareLayer& bare, const PickSettings& settings);

/// The second half: the residuals of `pick`, which the plan then counts. @param tokens as before; queries are not read
Result<CodedLayer> add_residuals(BareLayer bare, const LayerTokens& tokens, const ResidualPick& pick, Stream& stream);

/// For a layer that comes from a file, before any op reads it.
/// @return DataLoss unless every array has the plan's size, indices are anchors, anchor positions ascend inside the
/// coded
///         tokens, and masks, prefixes, offsets and slots agree
Status check_layer(const CodedLayer& layer);

/// Bounds of one side, of keys with their sketches; where the layout has none, nothing.
Status write_bounds(CodedLayer* layer, const LayerTokens& tokens, bool is_key, Stream& stream);

/// What the coded tokens of one side of one head stand for, residuals included, sketches not.
/// @param out [n_coded, d] f32
Status decode_side(const CodedLayer& layer, const CodedSide& side, int64_t head, const TensorView& out, Stream& stream);

}  // namespace vestige::anchor
