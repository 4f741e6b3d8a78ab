#include "cache/policies/vestige/calibration.h"

#include <algorithm>
#include <cmath>

namespace vestige {

int64_t calibration_rank(int64_t n, double tau) {
  const double tau_s = 2 * tau / (1 + tau);
  // 1e-9: (n + 1) tau_s is often a whole number, which rounding must not lift to the next one.
  return static_cast<int64_t>(std::ceil(static_cast<double>(n + 1) * tau_s - 1e-9));
}

float calibrated_z(std::vector<float>& samples, double tau, float z_max) {
  const auto n = static_cast<int64_t>(samples.size());
  const int64_t k = calibration_rank(n, tau);
  if (k > n) return z_max;
  const auto nth = samples.begin() + (k - 1);
  std::nth_element(samples.begin(), nth, samples.end());
  return std::clamp(*nth, 0.0f, z_max);
}

}  // namespace vestige
