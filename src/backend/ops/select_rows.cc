#include <algorithm>

#include "backend/ops/check_rows.h"
#include "vestige/ops/recall.h"

namespace vestige {

Status select_rows_check(const SelectRowsParams& p) {
  constexpr const char* kOp = "select_rows";
  VESTIGE_TRY(check::tensor({kOp, "score"}, p.score, {DType::kF32}, {-1}));
  const int64_t n = p.score.dim(0);
  if (n > INT32_MAX) return invalid_argument("%s: score has %" PRId64 " rows, want at most %d", kOp, n, INT32_MAX);
  if (p.n_keep < 0 || p.n_keep > n) {
    return invalid_argument("%s: n_keep = %" PRId64 ", want 0 to %" PRId64, kOp, p.n_keep, n);
  }
  if (p.n_sinks < 0 || p.n_sinks > n) {
    return invalid_argument("%s: n_sinks = %" PRId64 ", want 0 to %" PRId64, kOp, p.n_sinks, n);
  }
  VESTIGE_TRY(check::tensor({kOp, "ids"}, p.ids, {DType::kI32}, {-1}));
  const int64_t room = std::min(n, p.n_keep + p.n_sinks);
  if (p.ids.dim(0) < room) {
    return invalid_argument("%s: ids has room for %" PRId64 ", want %" PRId64, kOp, p.ids.dim(0), room);
  }
  return check::tensor({kOp, "n_ids"}, p.n_ids, {DType::kI32}, {1});
}

}  // namespace vestige
