#pragma once

// Error norms in one byte, on a grid of sixteenths of an octave, rounded up.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace vestige {

/// 2^(byte / 16); byte 255 = infinity, "no bound".
inline const std::array<float, 256>& norm_grid() {
  static const std::array<float, 256> grid = [] {
    std::array<float, 256> out;
    for (int i = 0; i < 255; ++i) {
      // The sixteen fractions once, then exact doublings: vector code rebuilds these from the exponent.
      out[static_cast<size_t>(i)] = std::ldexp(static_cast<float>(std::exp2(i % 16 / 16.0)), i / 16);
    }
    out[255] = std::numeric_limits<float>::infinity();
    return out;
  }();
  return grid;
}

/// The least byte whose value is not below `norm`; 255 for what lies past the grid or is not a number.
inline uint8_t norm_byte(double norm, float base) {
  if (!(norm < std::numeric_limits<double>::infinity())) return 255;
  const auto& grid = norm_grid();
  const auto at = std::lower_bound(grid.begin(), grid.end() - 1, norm,
                                   [base](float step, double want) { return static_cast<double>(base * step) < want; });
  return static_cast<uint8_t>(at - grid.begin());
}

}  // namespace vestige
