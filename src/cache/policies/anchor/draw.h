#pragma once

// Draws that depend on a seed and a place alone, never on what was drawn before.

#include <cstdint>

namespace vestige::anchor {

/// splitmix64.
inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Bits for `place` under a key that is itself mixed: draw(mix(seed), place).
inline uint64_t draw(uint64_t key, int64_t place) { return mix(key ^ static_cast<uint64_t>(place)); }

}  // namespace vestige::anchor
