#pragma once

// Which coefficient gets how many bits in which class of rows, for a price of a byte: reverse water-filling with whole
// bits. Source: docs/policies/klt.md, "Bits".

#include <array>
#include <cstdint>
#include <vector>

#include "backend/ops/plane_code.h"

namespace vestige::klt {

inline constexpr int32_t kClasses = int32_t{kMaxPlaneClasses};
inline constexpr int32_t kMaxBits = int32_t{kMaxPlanes};

/// Both sides of a head: variances of the coefficients of each class's rows, falling along the coefficients.
struct ClassVariance {
  int64_t d = 0;
  std::array<int64_t, kClasses> n_rows = {};
  std::array<std::vector<double>, kClasses> of_side[2];  ///< key, value; [d] each

  int64_t n() const { return n_rows[0] + n_rows[1] + n_rows[2] + n_rows[3]; }
};

struct BitPlan {
  int64_t d = 0, n = 0;
  int64_t rank[2] = {0, 0};                               ///< coefficients that have bits in some class
  std::array<std::vector<uint8_t>, kClasses> of_side[2];  ///< bits, [rank], falling
  std::array<int64_t, kClasses> n_rows = {};

  int64_t row_bits(int32_t c) const;
  int64_t row_bytes(int32_t c) const { return (row_bits(c) + 7) / 8; }
  int64_t code_bytes() const;
  /// All that a step reads and a file holds, apart from the file's own names.
  int64_t n_bytes() const;
};

/// Bytes of a head's tables, for the given ranks.
int64_t table_bytes(int64_t d, int64_t key_rank, int64_t value_rank);

/// Every bit that takes at least `price` of squared error away for each byte it costs, and every coefficient that pays
/// for its basis vector. Bits that fill a row's last byte are given to what gains most.
BitPlan plan_bits(const ClassVariance& variance, double price);

/// The lowest price, to a factor of 1 + 1e-6, at which the plans of all heads together take at most `budget` bytes.
double find_price(const std::vector<const ClassVariance*>& heads, double budget);

/// Makes `x` fall: each stretch that rises gets its mean (pool adjacent violators).
void make_falling(std::vector<double>* x);

}  // namespace vestige::klt
