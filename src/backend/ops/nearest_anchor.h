#pragma once

// The exact part of nearest_anchor: one sum, one order, on every backend.

#include <cmath>
#include <cstdint>

#include "base/load_number.h"

namespace vestige {

/// float64 sum over a row of x times a row of y, in order of coordinates.
inline double row_product(const ConstTensorView& x, int64_t i, const ConstTensorView& y, int64_t j) {
  double sum = 0;
  for (int64_t c = 0; c < x.dim(1); ++c) {
    sum += static_cast<double>(load_number(x.data, x.dtype, i * x.stride[0] + c)) *
           static_cast<double>(load_number(y.data, y.dtype, j * y.stride[0] + c));
  }
  return sum;
}

/// The best anchor so far of one vector, offered in rising order of index.
struct BestAnchor {
  int64_t index = 0;
  double score = 0;    ///< |<x, a>| / ||a||
  double product = 0;  ///< <x, a>

  void offer(int64_t a, double with_anchor, double anchor_norm) {
    const double s = anchor_norm > 0 ? std::fabs(with_anchor) / anchor_norm : 0;
    if (s > score) *this = {a, s, with_anchor};
  }
};

}  // namespace vestige
