#pragma once

// Cutting work into fixed pieces, and one allocation into the buffers of an op.

#include <cstdint>

#include "backend/cpu/scratch.h"

namespace vestige::cpu {

constexpr int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
constexpr int64_t ceil_div(int64_t n, int64_t step) { return (n + step - 1) / step; }

/// Hands out consecutive cache-line aligned parts of a scratch buffer.
class Slices {
 public:
  explicit Slices(float* begin) : next_(begin) {}
  float* take(int64_t n) {
    float* at = next_;
    next_ += line_floats(n);
    return at;
  }

 private:
  float* next_;
};

}  // namespace vestige::cpu
