#pragma once

#include <vector>

#include "vestige/tensor.h"

namespace vestige::test {

struct NearestAnchorCase {
  const char* name;
  int64_t n, k, d;
  DType dtype;
};

inline const std::vector<NearestAnchorCase>& nearest_anchor_cases() {
  static const std::vector<NearestAnchorCase> kCases = {
      {"none", 0, 3, 8, DType::kF32},         {"one", 1, 1, 64, DType::kBF16},
      {"tiles", 130, 64, 64, DType::kBF16},   {"odd", 65, 37, 100, DType::kF32},
      {"llama", 300, 256, 128, DType::kBF16}, {"many_anchors", 70, 1500, 32, DType::kF32},
      {"latent", 40, 33, 576, DType::kBF16},
  };
  return kCases;
}

enum class Turned { kNo, kInterleaved, kHalves, kPartly };

struct AttendAnchoredCase {
  const char* name;
  int64_t n_heads, m, n, k, d;
  int32_t bits;
  Turned turned;
  bool lean;       ///< one-byte index and gamma, f16 scale
  bool positions;  ///< given, with gaps
  double share;    ///< of tokens with a residual
  double bound;
};

inline const std::vector<AttendAnchoredCase>& attend_anchored_cases() {
  static const std::vector<AttendAnchoredCase> kCases = {
      {"none", 2, 3, 0, 4, 64, 2, Turned::kNo, true, false, 0.2, 1e-5},
      {"one", 1, 1, 1, 1, 8, 2, Turned::kHalves, true, false, 1.0, 1e-5},
      {"nope", 2, 4, 300, 32, 64, 2, Turned::kNo, false, false, 0.2, 1e-5},
      {"nope_wide", 1, 8, 200, 16, 512, 3, Turned::kNo, true, false, 0.5, 1e-5},
      {"halves", 2, 3, 1000, 64, 64, 2, Turned::kHalves, true, false, 0.25, 1e-4},
      {"interleaved", 1, 4, 777, 40, 128, 2, Turned::kInterleaved, false, false, 0.2, 1e-4},
      {"partly", 1, 2, 130, 9, 64, 4, Turned::kPartly, true, false, 0.3, 1e-4},
      {"gaps", 2, 2, 190, 20, 64, 2, Turned::kHalves, false, true, 0.3, 1e-4},
      {"no_residuals", 1, 2, 129, 20, 64, 2, Turned::kHalves, true, false, 0.0, 1e-4},
      {"pieces", 3, 3, 5000, 256, 64, 2, Turned::kHalves, true, false, 0.25, 1e-3},
  };
  return kCases;
}

}  // namespace vestige::test
