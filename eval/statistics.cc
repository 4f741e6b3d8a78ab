#include "eval/statistics.h"

#include <algorithm>
#include <cmath>

namespace vestige::eval {

namespace {

constexpr double kZ = 1.959963984540054;  // 97.5% quantile of the normal distribution

}  // namespace

Interval wilson_95(int64_t n_right, int64_t n) {
  if (n <= 0) return {};
  const auto count = static_cast<double>(n);
  const double p = static_cast<double>(n_right) / count, z2 = kZ * kZ;
  const double middle = p + z2 / (2 * count);
  const double spread = kZ * std::sqrt(p * (1 - p) / count + z2 / (4 * count * count));
  const double norm = 1 + z2 / count;
  return {std::max(0.0, (middle - spread) / norm), std::min(1.0, (middle + spread) / norm)};
}

Mean mean_95(std::span<const double> values) {
  if (values.empty()) return {};
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  const double mean = sum / n;
  for (const double v : values) squares += (v - mean) * (v - mean);
  const double half = values.size() < 2 ? 0 : kZ * std::sqrt(squares / (n - 1) / n);
  return {mean, mean - half, mean + half};
}

double sign_test(int64_t n_lost, int64_t n_gained) {
  const int64_t n = n_lost + n_gained, least = std::min(n_lost, n_gained);
  double tail = 0;
  for (int64_t k = 0; k <= least; ++k) {
    const auto x = static_cast<double>(k), m = static_cast<double>(n);
    tail += std::exp(std::lgamma(m + 1) - std::lgamma(x + 1) - std::lgamma(m - x + 1) - m * std::log(2.0));
  }
  return std::min(1.0, 2 * tail);
}

}  // namespace vestige::eval
