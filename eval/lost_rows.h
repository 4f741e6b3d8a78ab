#pragma once

// Whether a decode step attended the archived rows that it should not have left out.

#include <cstdint>

#include "vestige/cache.h"

namespace vestige::eval {

/// Over steps, layers and heads: archived rows of best true score that pass the policy's own threshold, and those of
/// them that were not attended. Rows attended by their code (mode through) are not lost.
struct LostRows {
  int64_t n_due = 0, n_lost = 0;
};

/// Counts one step that `cache` has just attended with q [1, h, d_row]. The threshold is that of the policy's settings
/// `rule` and `margin`; for policies without them, log-sum-exp of the kept and tail rows less 2 nats. A threshold that
/// rises with recalled rows counts as it was before: what it rightly leaves out is lost here.
/// @param rows exact, of all that the cache holds or has dropped
Status count_lost(const LayerCache& cache, const RowPages& rows, const ConstTensorView& q, bool coded, LostRows* lost,
                  Stream& stream);

}  // namespace vestige::eval
