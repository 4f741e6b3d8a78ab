#pragma once

// Picks the next token from logits.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/random.h"

namespace vestige {

class Sampler {
 public:
  /// @param temperature >= 0; 0 = greedy, a tie going to the lower id.
  Sampler(float temperature, uint64_t seed) : temperature_(temperature), random_(seed) {}
  /// @param logits at least one, none NaN (a NaN is never picked).
  int32_t pick(std::span<const float> logits);

 private:
  float temperature_;
  Pcg32 random_;
  std::vector<double> weights_;
};

}  // namespace vestige
