#include "cache/key_turn.h"

#include <cmath>

namespace vestige {

void turn_keys(float* x, int64_t n, int64_t d, const KeyRotation& rotation, int64_t position, int64_t step,
               double sign) {
  const auto n_pairs = static_cast<int64_t>(rotation.frequencies.size());
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n_pairs; ++j) {
      const double angle =
          sign * static_cast<double>(position + i * step) * double(rotation.frequencies[static_cast<size_t>(j)]);
      const double c = std::cos(angle), s = std::sin(angle);
      const TurnedPair pair = turned_pair(rotation, j);
      float &a = x[i * d + pair.a], &b = x[i * d + pair.b];
      const auto u = double(a), v = double(b);
      a = static_cast<float>(u * c - v * s);
      b = static_cast<float>(v * c + u * s);
    }
  }
}

}  // namespace vestige
