#pragma once

// What the observed queries of one head do with its exact tokens: the weights that choose anchors and rank residuals.

#include <vector>

#include "cache/policies/anchor/coded_layer.h"

namespace vestige::anchor {

struct Observed {
  std::vector<float> logits;   ///< [m, n_tokens], scale included
  std::vector<float> weights;  ///< [m, n_tokens] softmax over the tokens up to the query's position; 0 behind it
  std::vector<float> outputs;  ///< [m, d], or empty
};

/// @param with_outputs they take most of the time
/// @return InvalidArgument if a position is outside the tokens
Result<Observed> observe(const HeadTokens& head, const LayerTokens& tokens, bool with_outputs, Stream& stream);

/// Weights of rows this near to a query become 0 (outputs stay), a quarter of the tokens at most: whoever asks later is
/// farther away from almost all rows.
void forget_near(int64_t n_near, const LayerTokens& tokens, Observed* seen);

/// Mean over the queries of the weight of each of the first n tokens: what chooses anchors, once pooled.
std::vector<float> mean_weights(const Observed& seen, int64_t m, int64_t n_tokens, int64_t n);

/// Mean over queries of (scale q . R x)^2 of each row, with the angle of every turned pair taken as uniform: a query of
/// the same kind that may stand anywhere. x [n, d] f32, not turned.
std::vector<float> mean_square_scores(const ConstTensorView& x, const HeadTokens& head, const LayerTokens& tokens);

}  // namespace vestige::anchor
