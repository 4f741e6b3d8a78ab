#pragma once

// Where the planes of a row are and what its bits stand for (PlaneRows).

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "vestige/ops/planes.h"

namespace vestige {

inline constexpr int64_t kMaxPlanes = 8, kMaxPlaneClasses = 4, kMaxPlaneWidth = 256;

/// 2^n, n from -1022 to 1023, without a call.
inline double power_of_two(int32_t n) { return std::bit_cast<double>(static_cast<uint64_t>(1023 + n) << 52); }

/// 2^((code - 160) / 8), the same bits everywhere: no library's exp2. 0 for code 0.
inline double plane_range(uint8_t code) {
  static constexpr double kEighths[8] = {1.0,
                                         1.0905077326652577,
                                         1.1892071150027210,
                                         1.2968395546510096,
                                         1.4142135623730951,
                                         1.5422108254079407,
                                         1.6817928305074290,
                                         1.8340080864093424};
  return code == 0 ? 0.0 : kEighths[code % 8] * power_of_two(code / 8 - 20);
}

/// Coefficients that plane p of class c holds.
inline int64_t plane_width(const PlaneSide& side, int64_t c, int64_t p) {
  return side.n_planes.as<int32_t>()[c * kMaxPlanes + p];
}

inline double coefficient_range(const PlaneSide& side, int64_t c, int64_t j) {
  return plane_range(side.range.as<uint8_t>()[c * side.basis.dim(0) + j]);
}

/// Number i of a basis vector, unscaled.
inline int32_t basis_level(const PlaneSide& side, int64_t j, int64_t i) {
  return side.basis.as<int8_t>()[j * side.basis.dim(1) + i];
}

/// Bits of coefficient j in class c.
inline int32_t coefficient_bits(const PlaneSide& side, int64_t c, int64_t j) {
  int32_t bits = 0;
  while (bits < kMaxPlanes && j < plane_width(side, c, bits)) ++bits;
  return bits;
}

inline int64_t side_bits(const PlaneSide& side, int64_t c) {
  int64_t n = 0;
  for (int64_t p = 0; p < kMaxPlanes; ++p) n += plane_width(side, c, p);
  return n;
}

inline int64_t plane_row_class(const PlaneRows& rows, int64_t t) {
  return rows.row_class.as<uint8_t>()[t / 4] >> (2 * (t % 4)) & 3;
}

/// What one side's bits of a row of class c stand for, [d]; `at`, the bit of `row` where they begin, is moved past
/// them.
inline std::vector<double> read_plane_row(const PlaneSide& side, int64_t c, const uint8_t* row, int64_t* at) {
  const int64_t r = side.basis.dim(0), d = side.basis.dim(1);
  std::vector<double> u(static_cast<size_t>(r), 0.0), x(static_cast<size_t>(d));
  for (int64_t p = 0; p < kMaxPlanes; ++p) {
    for (int64_t j = 0; j < plane_width(side, c, p); ++j, ++*at) {
      const int bit = row[*at / 8] >> (*at % 8) & 1;
      u[static_cast<size_t>(j)] += std::ldexp(bit, -static_cast<int>(p) - 1);
    }
  }
  for (int64_t i = 0; i < d; ++i) x[static_cast<size_t>(i)] = static_cast<double>(side.mean.as<float>()[i]);
  for (int64_t j = 0; j < r; ++j) {
    const int32_t bits = coefficient_bits(side, c, j);
    if (bits == 0) continue;
    const double middle = std::ldexp(1.0, -bits - 1) - 0.5;
    const double t = coefficient_range(side, c, j) * (u[static_cast<size_t>(j)] + middle);
    const double factor = t * static_cast<double>(side.basis_scale.as<float>()[j]);
    for (int64_t i = 0; i < d; ++i) x[static_cast<size_t>(i)] += factor * basis_level(side, j, i);
  }
  return x;
}

/// Bytes of a row of each class, and where the class's rows begin in `codes`.
struct PlaneLayout {
  int64_t n_classes = 0;
  int64_t key_bits[kMaxPlaneClasses] = {}, value_bits[kMaxPlaneClasses] = {};
  int64_t row_bytes[kMaxPlaneClasses] = {}, begin[kMaxPlaneClasses] = {};

  explicit PlaneLayout(const PlaneRows& rows) : n_classes(rows.key.n_planes.dim(0)) {
    int64_t n_rows[kMaxPlaneClasses] = {};
    if (rows.n_rows > 0) {
      const int64_t last = (rows.n_rows - 1) / kPlaneRun;
      for (int64_t c = 0; c < n_classes; ++c) n_rows[c] = rows.run_start.as<int32_t>()[last * n_classes + c];
      for (int64_t t = last * kPlaneRun; t < rows.n_rows; ++t) ++n_rows[plane_row_class(rows, t)];
    }
    int64_t at = 0;
    for (int64_t c = 0; c < n_classes; ++c) {
      key_bits[c] = side_bits(rows.key, c);
      value_bits[c] = side_bits(rows.value, c);
      row_bytes[c] = (key_bits[c] + value_bits[c] + 7) / 8;
      begin[c] = at;
      at += n_rows[c] * row_bytes[c];
    }
  }
};

/// Calls row(t, class, offset in `codes`) for the rows of one run, in order.
template <class Row>
void for_run(const PlaneRows& rows, const PlaneLayout& layout, int64_t run, const Row& row) {
  int64_t at[kMaxPlaneClasses] = {};
  for (int64_t c = 0; c < layout.n_classes; ++c) {
    at[c] = layout.begin[c] + rows.run_start.as<int32_t>()[run * layout.n_classes + c] * layout.row_bytes[c];
  }
  for (int64_t t = run * kPlaneRun; t < std::min(rows.n_rows, (run + 1) * kPlaneRun); ++t) {
    const int64_t c = plane_row_class(rows, t);
    row(t, c, at[c]);
    at[c] += layout.row_bytes[c];
  }
}

}  // namespace vestige
