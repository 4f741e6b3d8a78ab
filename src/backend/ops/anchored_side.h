#pragma once

// Token t of an AnchoredSide: where its residual is, if it has one.

#include <bit>
#include <cstdint>

#include "vestige/ops/anchor.h"

namespace vestige {

/// Row of the residual of token t in codes and scale; -1 if it has none.
inline int64_t residual_row(const AnchoredSide& side, int64_t t) {
  const auto word = static_cast<uint64_t>(side.mask.as<int64_t>()[t / 64]);
  const uint64_t bit = uint64_t{1} << (t % 64);
  if ((word & bit) == 0) return -1;
  return side.prefix.as<int32_t>()[t / 64] + std::popcount(word & (bit - 1));
}

}  // namespace vestige
