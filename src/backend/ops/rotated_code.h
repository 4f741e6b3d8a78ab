#pragma once

// The code of the rotated quantiser: levels, signs of the rotation, bits in a row.

#include <array>
#include <cstdint>

namespace vestige {

inline constexpr int32_t kMaxLevels = 8;  // magnitudes of 4 bits

/// Of a vector that is worth coding: below it the decoded numbers are no longer rounded relative to their size.
inline constexpr double kLeastSquare = 0x1p-200;

/// Lloyd-Max quantiser of the unit Gaussian: magnitudes, and where one gives way to the next (their midpoints).
struct Codebook {
  std::array<double, kMaxLevels> level{};
  std::array<double, kMaxLevels - 1> border{};
};

/// @param bits 2, 3 or 4
inline const Codebook& codebook(int32_t bits) {
  static constexpr Codebook kCodebooks[3] = {
      {{0.4527800346, 1.5104176085}, {0.9815988216}},
      {{0.2450941789, 0.7560052812, 1.3439092785, 2.1519457045}, {0.5005497301, 1.0499572799, 1.7479274915}},
      {{0.1283950299, 0.3880482995, 0.6567591185, 0.9423404565, 1.2562311973, 1.6180463860, 2.0690172265, 2.7325895710},
       {0.2582216647, 0.5224037090, 0.7995497875, 1.0992858269, 1.4371387917, 1.8435318063, 2.4008033988}},
  };
  return kCodebooks[bits - 2];
}

/// Code of a number of unit variance.
inline uint32_t rotated_code(double v, int32_t bits, const Codebook& book) {
  const int32_t n_levels = 1 << (bits - 1);
  const double magnitude = v < 0 ? -v : v;
  uint32_t rank = 0;
  for (int32_t i = 0; i + 1 < n_levels; ++i) rank += magnitude > book.border[static_cast<size_t>(i)] ? 1 : 0;
  return rank | (v < 0 ? static_cast<uint32_t>(n_levels) : 0u);
}

inline double rotated_level(uint32_t code, int32_t bits, const Codebook& book) {
  const uint32_t sign = 1u << (bits - 1);
  const double magnitude = book.level[code & (sign - 1)];
  return (code & sign) != 0 ? -magnitude : magnitude;
}

/// Code j of a row. A code of 3 bits may lie across two bytes.
inline uint32_t read_code(const uint8_t* row, int64_t j, int32_t bits) {
  const int64_t bit = j * bits;
  uint32_t word = row[bit / 8];
  if (bit % 8 + bits > 8) word |= static_cast<uint32_t>(row[bit / 8 + 1]) << 8;
  return (word >> (bit % 8)) & ((1u << bits) - 1);
}

/// Into a row that was zero.
inline void write_code(uint8_t* row, int64_t j, int32_t bits, uint32_t code) {
  const int64_t bit = j * bits;
  const uint32_t word = code << (bit % 8);
  row[bit / 8] = static_cast<uint8_t>(row[bit / 8] | word);
  if (bit % 8 + bits > 8) row[bit / 8 + 1] = static_cast<uint8_t>(row[bit / 8 + 1] | (word >> 8));
}

/// Sign j of the rotation: true = minus. splitmix64 of seed and position.
inline bool rotation_minus(uint64_t seed, int64_t j) {
  uint64_t z = seed + (static_cast<uint64_t>(j) + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return ((z ^ (z >> 31)) >> 63) != 0;
}

/// x = H x, unnormalised, in place: sums in a fixed order.
template <class T>
void hadamard(T* x, int64_t d) {
  for (int64_t half = 1; half < d; half *= 2) {
    for (int64_t begin = 0; begin < d; begin += 2 * half) {
      for (int64_t i = begin; i < begin + half; ++i) {
        const T a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
}

}  // namespace vestige
