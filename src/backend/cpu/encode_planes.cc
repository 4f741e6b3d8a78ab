// float64 and the order of ref, so that the bytes are those of ref and of every CPU. A row is encoded once in its life.

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/ops/plane_code.h"
#include "base/thread_pool.h"

namespace vestige::cpu {

namespace {

/// One side of one class, a number a coefficient: no row asks for powers of two or counts planes.
struct SideCode {
  std::vector<double> range, n_levels;
  int64_t width[kMaxPlanes] = {};  ///< of each plane
  int32_t bits[kMaxPlaneWidth] = {};

  SideCode(const PlaneSide& side, int64_t c) {
    for (int64_t p = 0; p < kMaxPlanes; ++p) width[p] = plane_width(side, c, p);
    for (int64_t j = 0; j < width[0]; ++j) {
      bits[j] = coefficient_bits(side, c, j);
      range.push_back(coefficient_range(side, c, j));
      n_levels.push_back(std::ldexp(1.0, bits[j]));
    }
  }

  int64_t write(const float* t, int64_t at, uint8_t* row) const {
    uint32_t level[kMaxPlaneWidth];
    for (int64_t j = 0; j < width[0]; ++j) {
      const auto k = static_cast<size_t>(j);
      const double place = (static_cast<double>(t[j]) / range[k] + 0.5) * n_levels[k];
      // Toward zero is down here: what is below zero, or no number, takes level 0.
      const bool above = range[k] > 0 && place > 0;
      level[j] = above ? static_cast<uint32_t>(std::min(place, n_levels[k] - 1)) : 0;
    }
    for (int64_t p = 0; p < kMaxPlanes; ++p) {
      for (int64_t j = 0; j < width[p]; ++j, ++at) {
        row[at / 8] = static_cast<uint8_t>(row[at / 8] | (level[j] >> (bits[j] - 1 - p) & 1) << (at % 8));
      }
    }
    return at;
  }
};

}  // namespace

Status encode_planes(const EncodePlanesParams& p, Stream& stream) {
  const PlaneLayout layout(p.rows);
  std::vector<SideCode> key, value;
  for (int64_t c = 0; c < layout.n_classes; ++c) {
    key.emplace_back(p.rows.key, c);
    value.emplace_back(p.rows.value, c);
  }
  stream.pool()->run(p.rows.run_start.dim(0), [&](int64_t run, int32_t) {
    for_run(p.rows, layout, run, [&](int64_t t, int64_t c, int64_t at) {
      uint8_t* row = p.codes.as<uint8_t>() + at;
      std::fill_n(row, layout.row_bytes[c], uint8_t{0});
      const int64_t bit = key[static_cast<size_t>(c)].write(p.key.as<float>() + t * p.key.stride[0], 0, row);
      value[static_cast<size_t>(c)].write(p.value.as<float>() + t * p.value.stride[0], bit, row);
    });
  });
  return {};
}

}  // namespace vestige::cpu
