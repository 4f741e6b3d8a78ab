#pragma once

// The conformal order statistic that sets z (vestigekv.md, section 5).

#include <cstdint>
#include <vector>

namespace vestige {

/// Rank (from 1) of the sample that z is: ceil((n + 1) tau_s), tau_s = tau / (1 - (1 - tau) / 2).
/// May exceed n: then n samples cannot support tau.
int64_t calibration_rank(int64_t n, double tau);

/// z_(k) with k = calibration_rank(n), cut to [0, z_max]; z_max if k > n. (The paper's z may be negative: rows
/// with a large residual are then held back. 0 recalls those rows too, and never fewer.)
/// @param samples z that each query needs; reordered
float calibrated_z(std::vector<float>& samples, double tau, float z_max);

}  // namespace vestige
