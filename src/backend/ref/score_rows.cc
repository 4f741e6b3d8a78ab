#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "backend/ops/row_access.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

namespace {

// x minus its first `bandwidth` real-FFT bins, by the definition of the transform: bin k and bin n - k are one bin.
std::vector<double> high_pass(const std::vector<double>& x, int64_t bandwidth) {
  const int64_t n = static_cast<int64_t>(x.size());
  std::vector<double> rest = x;
  for (int64_t k = 0; k < bandwidth; ++k) {
    const double step = 2.0 * std::numbers::pi / static_cast<double>(n);
    std::complex<double> bin = 0;
    for (int64_t p = 0; p < n; ++p)
      bin += x[static_cast<size_t>(p)] * std::polar(1.0, -step * static_cast<double>(k * p % n));
    const double both = k == 0 ? 1.0 : 2.0;
    for (int64_t p = 0; p < n; ++p) {
      rest[static_cast<size_t>(p)] -=
          both / static_cast<double>(n) * (bin * std::polar(1.0, step * static_cast<double>(k * p % n))).real();
    }
  }
  return rest;
}

}  // namespace

Status score_rows(const ScoreRowsParams& p, Stream&) {
  const int64_t n = p.branch.dim(0), d = p.branch.dim(1);
  std::vector<double> square(static_cast<size_t>(n)), column(static_cast<size_t>(n));
  for (int64_t c = 0; c < d; ++c) {
    for (int64_t u = 0; u < n; ++u) {
      column[static_cast<size_t>(u)] =
          static_cast<double>(load_number(p.branch.data, p.branch.dtype, u * p.branch.stride[0] + c));
    }
    const std::vector<double> rest = high_pass(column, p.bandwidth);
    for (size_t u = 0; u < rest.size(); ++u) square[u] += rest[u] * rest[u];
  }
  for (int64_t u = 0; u < n; ++u)
    p.score.as<float>()[u] = static_cast<float>(std::sqrt(square[static_cast<size_t>(u)]));
  return {};
}

}  // namespace vestige::ref
