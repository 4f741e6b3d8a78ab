#include "backend/ops/check_rows.h"
#include "vestige/ops/recall.h"

namespace vestige {

Status best_rows_check(const BestRowsParams& p) {
  constexpr const char* kOp = "best_rows";
  VESTIGE_TRY(check::finite_scale(kOp, p.scale));
  VESTIGE_TRY(check::pages(kOp, p.rows));
  VESTIGE_TRY(check::tensor({kOp, "q"}, p.q, {DType::kF32}, {-1, p.rows.layout.d_row()}));
  const int64_t n = p.q.dim(0);
  VESTIGE_TRY(check::tensor({kOp, "limit"}, p.limit, {DType::kI32}, {n}));
  VESTIGE_TRY(check::tensor({kOp, "best"}, p.best, {DType::kF32}, {n}));
  VESTIGE_TRY(check::tensor({kOp, "arg"}, p.arg, {DType::kI32}, {n}));
  if (p.entropy.rank != 0) VESTIGE_TRY(check::tensor({kOp, "entropy"}, p.entropy, {DType::kF32}, {n}));
  for (int64_t i = 0; i < n; ++i) {
    const int32_t limit = p.limit.as<int32_t>()[i];
    if (limit < 0 || limit > p.rows.n_rows) {
      return invalid_argument("%s: limit[%" PRId64 "] = %d, want 0 to %" PRId64, kOp, i, limit, p.rows.n_rows);
    }
  }
  return {};
}

}  // namespace vestige
