#pragma once

// PCG32 (O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms", 2014): small, and the
// same numbers on every machine, which std::uniform_real_distribution does not promise.

#include <bit>
#include <cstdint>

namespace vestige {

class Pcg32 {
 public:
  explicit Pcg32(uint64_t seed) {
    next();
    state_ += seed;
    next();
  }
  uint32_t next() {
    const uint64_t old = state_;
    state_ = old * 6364136223846793005ull + 1442695040888963407ull;
    return std::rotr(static_cast<uint32_t>(((old >> 18) ^ old) >> 27), static_cast<int>(old >> 59));
  }
  /// Uniform in [0, 1), 32 bits.
  double uniform() { return next() * 0x1p-32; }

 private:
  uint64_t state_ = 0;
};

}  // namespace vestige
