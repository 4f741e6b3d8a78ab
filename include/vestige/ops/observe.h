#pragma once

// What queries say about rows: the statistics that policies with a PromptScorer rank rows by. Neither op ever holds
// more scores than a tile of queries (or rows) has, and neither depends on how the queries are cut into calls.

#include <cstdint>

#include "vestige/device.h"
#include "vestige/layout.h"
#include "vestige/tensor.h"

namespace vestige {

/// The unit of AttendMassParams::mass.
inline constexpr double kMassUnit = 0x1p-34;

/// Column statistics of causal softmax: how much of their attention queries pay to each row. With w[i, head, u] the
/// softmax of scale q[i, head] . row_u over the rows that query i sees (u <= first_position + i, u < rows.n_rows):
///   mass[u] += sum over i, head of round(w / kMassUnit),   peak[u] = max(peak[u], max over i, head of w)
/// The sum is one of whole numbers, so calls over the same queries in any pieces and any order give the same bits; no
/// weight is off by more than half a unit, 2^-35, beyond float32 rounding, and 2^29 weights of 1 fit. A weight that is
/// not a number counts as 0.
struct AttendMassParams {
  ConstTensorView q;           ///< [n, h, d_row] f32, absorbed
  RowPages rows;               ///< all rows of the sequence that exist
  int64_t first_position = 0;  ///< of query 0; >= 0; may lie past the last row
  TensorView mass = {};        ///< [rows.n_rows] i64, in and out; or absent (rank 0)
  TensorView peak = {};        ///< [rows.n_rows] f32, in and out; or absent (rank 0)
  float scale = 1.0f;
};
Status attend_mass_check(const AttendMassParams& p);

/// Mean and variance, over the queries of a head, of their scores on each row: with s_i = scale q[i, head] . row_u,
///   mean[head, u] = 1/n sum_i s_i,   variance[head, u] = 1/n sum_i (s_i - mean)^2
/// which are scale mu . row_u and scale^2 row_u^T Sigma row_u of the queries' own mean and covariance.
struct ScoreMomentsParams {
  ConstTensorView q;  ///< [n, h, d_row] f32, absorbed; n >= 1
  RowPages rows;
  TensorView mean;      ///< [h, rows.n_rows] f32, out
  TensorView variance;  ///< [h, rows.n_rows] f32, out
  float scale = 1.0f;
};
Status score_moments_check(const ScoreMomentsParams& p);

}  // namespace vestige
