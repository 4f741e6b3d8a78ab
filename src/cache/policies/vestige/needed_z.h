#pragma once

// How large z must be for each calibration query (vestigekv.md, section 5, label rule B).

#include <cstdint>
#include <vector>

#include "vestige/layout.h"
#include "vestige/ops.h"
#include "vestige/status.h"

namespace vestige {

struct NeededZ {
  ConstTensorView queries;  ///< [n * heads, d_row] f32
  int64_t heads = 0;
  int64_t first_position = 0;                    ///< of the first token; its queries may see rows <= first_position
  RowPages rows;                                 ///< closed rows
  const uint8_t* kept = nullptr;                 ///< [rows.n_rows]
  ConstTensorView basis;                         ///< [r, d_content] f32
  std::span<const void*const> sketch, residual;  ///< pages of the index
  float scale = 1.0f;
};

/// One z for each query that sees an archived row: with t its best archived row by true score,
///   z = (true_t - idx_t) / cert_t,
/// which lifts the certified score of t to its true score. Queries with cert_t = 0 are left out: no z moves
/// them. idx and cert are of the operands that scan_archive uses: V q_c summed in float64, then rounded to float32 for
/// the residual and to f16 for idx, the branch rounded to the row dtype. Only the last sum differs (float64 here).
Result<std::vector<float>> needed_z(const NeededZ& p, Stream& stream);

}  // namespace vestige
