#pragma once

// Matrices in blocks of codes for tests: every code, small scales of both signs.

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/half.h"
#include "vestige/tensor.h"

namespace vestige {

inline constexpr DType kBlockDTypes[] = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ4K, DType::kQ6K};

/// n numbers (whole blocks), of about `size` each.
inline std::vector<std::byte> random_blocks(DType dtype, int64_t n, uint64_t seed, float size = 1.0f) {
  std::vector<std::byte> bytes(static_cast<size_t>(stored_bytes(dtype, n)));
  std::mt19937_64 random(seed);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  // Where the halves lie in a block, and how large what they multiply can be.
  const bool two = dtype == DType::kQ4_1 || dtype == DType::kQ4K;
  const size_t first = dtype == DType::kQ6K ? 208 : 0;
  const float unit = dtype == DType::kQ8_0  ? 127
                     : dtype == DType::kQ4K ? 63 * 15
                     : dtype == DType::kQ6K ? 32 * 127
                                            : 15;
  const auto at = [&](size_t byte, float value) {
    const uint16_t half = f32_to_f16(value);
    std::memcpy(bytes.data() + byte, &half, sizeof half);
  };
  for (size_t block = 0; block < bytes.size(); block += static_cast<size_t>(dtype_block(dtype).n_bytes)) {
    const float part = static_cast<float>(random() % 1000) / 500 - 1;
    at(block + first, size * part / unit);
    if (two) at(block + 2, dtype == DType::kQ4K ? size * part / 63 : -size * part / 2);
  }
  return bytes;
}

}  // namespace vestige
