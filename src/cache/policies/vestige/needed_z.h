#pragma once

// How large z must be for each calibration query (vestigekv.md, section 5).

#include <cstdint>
#include <vector>

#include "cache/policies/vestige/index_codec.h"

namespace vestige {

struct NeededZ {
  CodecQueries of;
  ConstTensorView basis;                         ///< [r, d_content] f32
  std::span<const void*const> sketch, residual;  ///< pages of the index
};

/// One z for each query that sees an archived row: with t its best archived row by true score,
///   z = (true_t - idx_t) / cert_t,
/// which lifts the certified score of t to its true score (label rule B; hard_only: to the best kept score, rule A).
/// Queries with cert_t = 0 are left out: no z moves them. idx and cert are of the operands that scan_archive uses: V
/// q_c summed in float64, then rounded to float32 for the residual and to f16 for idx, the branch rounded to the row
/// dtype. Only the last sum differs (float64 here).
Result<std::vector<float>> needed_z(const NeededZ& p, Stream& stream);

}  // namespace vestige
