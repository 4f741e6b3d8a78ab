#pragma once

// Anchors that cover a head's tokens: none of them far in angle from the nearest anchor. In place of AnchorKV's random
// share; our own, after the greedy 2-approximation of k-center (Gonzalez 1985) and spherical k-means.

#include <cstdint>
#include <span>
#include <vector>

#include "vestige/tensor.h"

namespace vestige::anchor {

/// Tokens of a head, f32 or bf16, [n_tokens, d], row stride free. A row of zeros, or with a number that is not finite,
/// counts as covered on its side.
struct CoverRows {
  ConstTensorView key, value;
  int64_t n_coded = 0;  ///< the first so many may be chosen
};

/// `n_more` (at most those left) positions below n_coded, each the one farthest from `given` and those before it:
/// a token's distance is 1 - |cos| to its nearest anchor, of keys and of values each by itself, added up. Equal: the
/// lower position. @param given positions below n_tokens that are anchors anyway
std::vector<int32_t> farthest_rows(const CoverRows& rows, std::span<const int32_t> given, int64_t n_more);

/// A few steps of spherical k-means from there: tokens go to the anchor with the largest |cos| of keys and values
/// together, and an anchor that is not given becomes the one of its tokens that is nearest to the mean direction of
/// them, each counted with the sign of its cosine.
std::vector<int32_t> central_rows(const CoverRows& rows, std::span<const int32_t> given, int64_t n_more);

}  // namespace vestige::anchor
