#pragma once

// Which tokens of a layer get a residual: the best of all heads together.

#include <cstdint>
#include <span>
#include <vector>

#include "cache/policies/anchor/byte_plan.h"

namespace vestige::anchor {

struct PickSettings {
  bool pooled = false;   ///< keys and values in one ranking; else half of the residuals each
  double key_share = 0;  ///< in [0, 1]: so much of the bytes at least for the keys farthest from their anchors
  bool operator==(const PickSettings&) const = default;
};

/// One side of one head.
struct SideUtility {
  std::span<const float> utility;      ///< [n] higher = first; not a number: last
  std::span<const uint8_t> is_anchor;  ///< [n] 1 = stands for itself: no candidate
  std::span<const float> cosine = {};  ///< [n] to the nearest anchor, without sign; read where key_share > 0
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

/// What there is to hand out.
struct PickRoom {
  int64_t n_key = 0, n_value = 0;  ///< residuals, unless pooled
  int64_t n_bytes = 0;             ///< for all of them
};

/// The residuals of a layer. First, of n_bytes, key_share for the keys of the smallest cosines; then by utility. Where
/// the share is more than n_key residuals, those of values make way.
ResidualPick pick_layer(std::span<const SideUtility> keys, std::span<const SideUtility> values,
                        const PickSettings& settings, const BytePlan& plan, const PickRoom& room);

}  // namespace vestige::anchor
