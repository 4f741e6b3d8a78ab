#pragma once

// Exact rows at their last call: what an index that replaces rows may still read (ClosedBlock).

#include <algorithm>

#include "backend/ops/row_access.h"
#include "vestige/policy.h"

namespace vestige {

/// Rows that are all there.
inline ClosedBlock whole_rows(const RowPages& rows) {
  return {.rows = rows, .first_row = 0, .held = {}, .held_ids = {}, .kept_ids = {}};
}

/// The row at position u, content then branch, into [d_row].
/// @return Internal if it is neither in the block nor held
template <class T>
Status load_left_row(const ClosedBlock& block, int64_t u, T* out) {
  if (u >= block.first_row && u < block.first_row + block.rows.n_rows) {
    load_row(block.rows, u - block.first_row, out);
    return {};
  }
  const auto at = std::lower_bound(block.held_ids.begin(), block.held_ids.end(), u);
  if (at == block.held_ids.end() || *at != u) {
    return internal_error("row %lld is wanted after it was dropped", static_cast<long long>(u));
  }
  load_row(block.held, at - block.held_ids.begin(), out);
  return {};
}

}  // namespace vestige
