#pragma once

// The coefficient of an anchor in one byte: 0 is zero; else bit 7 is the sign and the other bits m, 1 to 127, stand for
// 2^((m - 80) / 16), from 0.033 to 7.7 in steps of 4.4%. One is exact (m = 80), as an anchor's own coefficient must be.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/load_number.h"

namespace vestige {

inline constexpr int kGammaOne = 80;

inline const std::array<float, 256>& gamma_table() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> out{};
    for (int m = 1; m < 128; ++m) {
      out[static_cast<size_t>(m)] = static_cast<float>(std::exp2((m - kGammaOne) / 16.0));
      out[static_cast<size_t>(m + 128)] = -out[static_cast<size_t>(m)];
    }
    return out;
  }();
  return table;
}

/// The code whose value is nearest to `gamma`; what is beyond the table takes its end, what is not a number zero.
inline uint8_t gamma_code(float gamma) {
  const auto& table = gamma_table();
  const float magnitude = std::fabs(gamma);
  if (!(magnitude >= 0.5f * table[1])) return 0;
  const float* begin = table.data() + 1;
  const float* above = std::lower_bound(begin, begin + 126, magnitude);
  if (above != begin && magnitude - above[-1] <= above[0] - magnitude) --above;
  const auto m = static_cast<uint8_t>(above - table.data());
  return static_cast<uint8_t>(gamma < 0 ? m + 128 : m);
}

/// Coefficient t of a side.
inline float load_gamma(const ConstTensorView& gamma, int64_t t) {
  if (gamma.dtype == DType::kU8) return gamma_table()[gamma.as<uint8_t>()[t]];
  return load_number(gamma.data, gamma.dtype, t);
}

inline int64_t load_index(const ConstTensorView& index, int64_t t) {
  const auto* bytes = index.as<uint8_t>() + t * index.dim(1);
  return index.dim(1) == 1 ? bytes[0] : bytes[0] + 256 * bytes[1];
}

}  // namespace vestige
