#include <algorithm>
#include <cmath>

#include "backend/ops/plane_code.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

namespace {

/// Of the 2^bits levels the nearest to t, as an integer whose highest bit is plane 0.
int64_t nearest_level(double t, double range, int32_t bits) {
  const double n = std::ldexp(1.0, bits), level = std::floor((t / range + 0.5) * n);
  if (!(range > 0) || !(level > 0)) return 0;
  return static_cast<int64_t>(std::min(level, n - 1));
}

/// Bits of one side of a row, from bit `at` of `row`; returns the bit after them.
int64_t write_side(const PlaneSide& side, int64_t c, const float* t, int64_t at, uint8_t* row) {
  for (int64_t p = 0; p < kMaxPlanes; ++p) {
    for (int64_t j = 0; j < plane_width(side, c, p); ++j, ++at) {
      const int32_t bits = coefficient_bits(side, c, j);
      const int64_t level = nearest_level(static_cast<double>(t[j]), coefficient_range(side, c, j), bits);
      row[at / 8] = static_cast<uint8_t>(row[at / 8] | (level >> (bits - 1 - p) & 1) << (at % 8));
    }
  }
  return at;
}

}  // namespace

Status encode_planes(const EncodePlanesParams& p, Stream&) {
  const PlaneLayout layout(p.rows);
  auto* codes = p.codes.as<uint8_t>();
  for (int64_t run = 0; run < p.rows.run_start.dim(0); ++run) {
    for_run(p.rows, layout, run, [&](int64_t t, int64_t c, int64_t at) {
      std::fill_n(codes + at, layout.row_bytes[c], uint8_t{0});
      const int64_t bit = write_side(p.rows.key, c, p.key.as<float>() + t * p.key.stride[0], 0, codes + at);
      write_side(p.rows.value, c, p.value.as<float>() + t * p.value.stride[0], bit, codes + at);
    });
  }
  return {};
}

}  // namespace vestige::ref
