#pragma once

// The transform of one head's keys and values, and its rows as coefficients: what a plan is made from.

#include <array>
#include <vector>

#include "cache/policies/klt/bit_plan.h"
#include "cache/policies/klt/sensitivity.h"

namespace vestige::klt {

/// t = forward (x - mean), x = mean + dual^T t; coefficients in falling order of variance, the first of variance 1.
struct SideTransform {
  std::vector<float> mean;           ///< [d]
  std::vector<float> forward, dual;  ///< [d, d]
  double unit = 1;                   ///< squared error that a unit of squared error in t costs
};

/// Rows first .. first + n of a head, keys turned back to before their turn; row 0 of `rows` has position 0.
HeadRows coded_rows(const HeadRows& rows, int64_t first, int64_t n, const KeyRotation& rotation);

/// [n, d] coefficients of x [n, d].
Result<std::vector<float>> coefficients_of(const std::vector<float>& x, int64_t n, int64_t d,
                                           const SideTransform& transform, Stream& stream);

/// Classes by energy: what coding nothing of a row would cost. limits[i]: the least energy of class i + 1.
struct RowClasses {
  std::vector<uint8_t> of_row;
  std::array<float, kClasses - 1> limits = {};
};
uint8_t class_of(double energy, const std::array<float, kClasses - 1>& limits);

struct HeadTransform {
  SideTransform side[2];  ///< key, value
  RowClasses classes;
  ClassVariance variance;  ///< in the unit of cost
};

/// @param rows of which [first, n_end) are to be coded; queries may see more of them
Result<HeadTransform> fit_head(const RecallFit& fit, const HeadRows& rows, int64_t first, int64_t n_end,
                               const KeyRotation& rotation, const Weighting& weighting, Stream& stream);

}  // namespace vestige::klt
