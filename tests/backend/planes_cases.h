#pragma once

// Cases of encode_planes and attend_planes, for tests and bench.

#include <cstdint>
#include <vector>

namespace vestige::test {

enum class PlaneTurn { kNo, kInterleaved, kHalves, kPartly };

/// Bits of a row of class c: `first` numbers in the most significant plane, and a `fall` as many in each further one.
struct PlaneShape {
  int64_t r, first;
  double fall;
};

struct PlanesCase {
  const char* name;
  int64_t m, n, d;
  PlaneShape key, value;       ///< of class 0; class c has more of both
  std::vector<double> shares;  ///< of rows, a class
  PlaneTurn turn;
  int64_t first_position;
  double bound;
};

inline const std::vector<PlanesCase>& planes_cases() {
  const std::vector<double> four = {0.45, 0.30, 0.18, 0.07};
  static const std::vector<PlanesCase> kCases = {
      {"none", 2, 0, 64, {24, 20, 0.3}, {45, 35, 0.15}, four, PlaneTurn::kHalves, 0, 1e-5},
      {"one", 1, 1, 8, {3, 3, 0.5}, {2, 2, 0.5}, {1.0}, PlaneTurn::kHalves, 5, 3e-4},
      {"few", 3, 9, 64, {24, 20, 0.3}, {45, 35, 0.15}, four, PlaneTurn::kHalves, 0, 3e-4},
      {"smollm", 3, 3000, 64, {24, 20, 0.3}, {45, 35, 0.15}, four, PlaneTurn::kHalves, 0, 3e-4},
      {"interleaved", 4, 2048, 64, {30, 22, 0.4}, {40, 30, 0.2}, four, PlaneTurn::kInterleaved, 100, 3e-4},
      {"wide", 4, 1500, 128, {60, 50, 0.4}, {100, 70, 0.3}, four, PlaneTurn::kHalves, 4, 3e-4},
      // Some 1600 bits a key, each rounded to a step.
      {"widest", 9, 150, 256, {256, 256, 0.9}, {256, 256, 0.9}, {0.5, 0.5}, PlaneTurn::kPartly, 4, 5e-3},
      {"odd_width", 5, 1025, 72, {31, 17, 0.5}, {33, 29, 0.4}, {0.2, 0.0, 0.8}, PlaneTurn::kInterleaved, 0, 3e-4},
      {"partly", 2, 333, 48, {16, 13, 0.6}, {20, 11, 0.7}, {0.5, 0.5}, PlaneTurn::kPartly, 3, 3e-4},
      {"not_turned", 3, 1200, 64, {24, 20, 0.3}, {45, 35, 0.15}, four, PlaneTurn::kNo, 7, 3e-4},
      {"no_key", 2, 1100, 64, {0, 0, 0.0}, {20, 15, 0.4}, {0.7, 0.3}, PlaneTurn::kHalves, 0, 3e-4},
      {"no_value", 2, 300, 64, {20, 15, 0.4}, {0, 0, 0.0}, {0.7, 0.3}, PlaneTurn::kHalves, 0, 3e-4},
      {"no_bits", 2, 300, 16, {0, 0, 0.0}, {4, 0, 0.0}, {1.0}, PlaneTurn::kHalves, 0, 3e-4},
      {"one_bit", 7, 2100, 24, {1, 1, 0.0}, {1, 1, 0.0}, {0.0, 1.0}, PlaneTurn::kHalves, 0, 3e-4},
      {"far", 2, 1500, 64, {24, 20, 0.3}, {45, 35, 0.15}, four, PlaneTurn::kHalves, 20000, 2e-3},
  };
  return kCases;
}

}  // namespace vestige::test
