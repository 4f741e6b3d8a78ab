#pragma once

// Which tokens of a layer get a residual: the best of all heads together.

#include <cstdint>
#include <span>
#include <vector>

#include "cache/policies/anchor/byte_plan.h"

namespace vestige::anchor {

/// One side of one head.
struct SideUtility {
  std::span<const float> utility;      ///< [n] higher = first; not a number: last
  std::span<const uint8_t> is_anchor;  ///< [n] 1 = stands for itself: no candidate
};

/// Residual masks [head][ceil(n / 64)] with the n_residuals best candidates set, or all if there are fewer.
/// Equal utilities: the lower head, then the lower position.
std::vector<std::vector<uint64_t>> pick_residuals(std::span<const SideUtility> heads, int64_t n_residuals);

struct ResidualPick {
  std::vector<std::vector<uint64_t>> key, value;  ///< masks, as above
};

/// Keys and values in one ranking by utility for each byte, as long as they fit into n_bytes. What no longer fits ends
/// the ranking. Equal: keys first, then as above. @param plan for the bytes of a residual
ResidualPick pick_pooled(std::span<const SideUtility> keys, std::span<const SideUtility> values, const BytePlan& plan,
                         int64_t n_bytes);

}  // namespace vestige::anchor
