#pragma once

// How the bits of a code are spent: reverse water-filling over the coordinates of a transform, and the steps.

#include <cstdint>
#include <span>
#include <vector>

#include "vestige/ops/codes.h"

namespace vestige {

/// One CodeStage and the memory behind it.
struct CodePlan {
  std::vector<int32_t> bits, coord, shift;
  std::vector<float> step, weight;
  int32_t n_units[3] = {0, 0, 0};
  float norm_base = 1.0f;

  /// Fills n_units from bits.
  void count_units();
  /// Fills coord, shift and weight from bits, step and n_units.
  void place_entries();
  CodeStage stage() const;
};

/// Spends at most `code_bytes` (a multiple of 4) on coordinates of these variances: each bit goes where it takes most
/// distortion away (uniform quantiser of a Gaussian), as long as the units that hold the pieces fit. Ties: the lower
/// coordinate. Steps are those of a Gaussian.
CodePlan plan_code(std::span<const float> variance, int32_t code_bytes);

/// Sets each coded coordinate's step to the best of a fixed grid around its Gaussian one, by squared error on a sample
/// [n, d], and replaces the sample by what the code leaves of it.
void tune_steps(CodePlan* plan, std::span<float> sample);

}  // namespace vestige
