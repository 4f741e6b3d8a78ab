#include <algorithm>

#include "backend/ops/check_rows.h"
#include "vestige/ops/recall.h"

namespace vestige {

Status score_rows_check(const ScoreRowsParams& p) {
  constexpr const char* kOp = "score_rows";
  VESTIGE_TRY(check::tensor({kOp, "branch"}, p.branch, {DType::kBF16, DType::kF32}, {-1, -1}));
  const int64_t n = p.branch.dim(0);
  if (n < 1 || p.branch.dim(1) < 1) {
    return invalid_argument("%s: branch is %s, want at least one row and one column", kOp, describe(p.branch).c_str());
  }
  VESTIGE_TRY(check::tensor({kOp, "score"}, p.score, {DType::kF32}, {n}));
  const int64_t max_bandwidth = std::max<int64_t>(1, n / 2);
  if (p.bandwidth < 1 || p.bandwidth > max_bandwidth) {
    return invalid_argument("%s: bandwidth = %d, want 1 to %" PRId64 " for %" PRId64 " rows", kOp, p.bandwidth,
                            max_bandwidth, n);
  }
  return {};
}

}  // namespace vestige
