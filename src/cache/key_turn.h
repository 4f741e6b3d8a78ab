#pragma once

// Keys and queries turned by positions, as the op `rotate` turns them, in float64: what rounding the angle does cancels
// between turning back and forth.

#include <cstdint>

#include "vestige/layout.h"

namespace vestige {

/// The two coordinates of pair j.
struct TurnedPair {
  int64_t a, b;
};
inline TurnedPair turned_pair(const KeyRotation& rotation, int64_t j) {
  const auto n = static_cast<int64_t>(rotation.frequencies.size());
  return rotation.interleaved ? TurnedPair{2 * j, 2 * j + 1} : TurnedPair{j, j + n};
}

/// For ops: [n] f32, empty if keys are not turned. A view of `rotation`.
inline ConstTensorView frequencies_of(const KeyRotation& rotation) {
  const auto n = static_cast<int64_t>(rotation.frequencies.size());
  return n == 0 ? ConstTensorView() : ConstTensorView(rotation.frequencies.data(), DType::kF32, {n});
}

/// Row i of x [n, d] turned by sign * (position + i step); sign -1 takes the turn of that position back.
void turn_keys(float* x, int64_t n, int64_t d, const KeyRotation& rotation, int64_t position, int64_t step,
               double sign);

}  // namespace vestige
