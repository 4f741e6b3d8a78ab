#pragma once

// Which tokens of a head become anchors: AnchorKV (arXiv:2608.02901), section 2 point 1 and Eq. 14.

#include <cstdint>
#include <span>
#include <vector>

#include "vestige/status.h"
#include "vestige/tensor.h"

namespace vestige::anchor {

/// Mean over a centred window of `width` (odd) scores; those past either end count as zero and are divided by too, so
/// that the two ends are not favoured.
std::vector<float> pooled_scores(std::span<const float> score, int64_t width);

/// What chooses the anchors that scores do not.
enum class AnchorRule {
  kDrawn,     ///< chance, without replacement: the paper
  kFarthest,  ///< farthest_rows()
  kCentral,   ///< central_rows()
};

struct AnchorChoice {
  int64_t n_coded = 0;     ///< tokens to choose from: those before the window
  int64_t n_selected = 0;  ///< to choose, in [0, n_coded]
  double rho = 0.7;        ///< share of them by score, in [0, 1]; the rest by `rule`
  uint64_t seed = 0;       ///< of this head and layer
  AnchorRule rule = AnchorRule::kDrawn;
  ConstTensorView key = {}, value = {};  ///< as CoverRows; those from n_coded on are anchors anyway. kDrawn: not read
};

/// Positions, ascending. Equal scores: the lower position; a score that is not a number comes last.
/// @param score [n_coded], higher = anchor; may be empty if rho is 0
Result<std::vector<int32_t>> choose_anchors(const AnchorChoice& choice, std::span<const float> score);

}  // namespace vestige::anchor
