#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/ops/row_access.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

namespace {

constexpr double kMaxF16 = 65504;

}  // namespace

Status sketch_rows(const SketchRowsParams& p, Stream&) {
  const int64_t n = p.content.dim(0), d = p.content.dim(1), r = p.basis.dim(0);
  const float* basis = p.basis.as<float>();
  std::vector<double> rest(static_cast<size_t>(d)), sketch(static_cast<size_t>(r));
  for (int64_t u = 0; u < n; ++u) {
    for (int64_t k = 0; k < d; ++k) {
      rest[static_cast<size_t>(k)] =
          static_cast<double>(load_number(p.content.data, p.content.dtype, u * p.content.stride[0] + k));
    }
    bool fits = true;  // false for NaN too
    for (int64_t j = 0; j < r; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < d; ++k) sum += static_cast<double>(basis[j * d + k]) * rest[static_cast<size_t>(k)];
      sketch[static_cast<size_t>(j)] = sum;
      p.sketch.as<uint16_t>()[u * r + j] = f32_to_f16(static_cast<float>(std::clamp(sum, -kMaxF16, kMaxF16)));
      fits = fits && std::abs(sum) <= kMaxF16;
    }
    double square = 0;
    for (int64_t k = 0; k < d; ++k) {
      double left = rest[static_cast<size_t>(k)];
      for (int64_t j = 0; j < r; ++j) left -= static_cast<double>(basis[j * d + k]) * sketch[static_cast<size_t>(j)];
      square += left * left;
    }
    p.residual.as<float>()[u] = fits ? static_cast<float>(std::sqrt(square)) : INFINITY;
  }
  return {};
}

}  // namespace vestige::ref
