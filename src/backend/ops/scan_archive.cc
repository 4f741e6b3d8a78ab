#include "backend/ops/check_rows.h"
#include "vestige/ops/recall.h"

namespace vestige {

namespace {

constexpr const char* kOp = "scan_archive";

Status check_set(const ScanSet& set, const ScanSet& first, int64_t d_row) {
  const RecallPages& p = set.pages;
  if (p.d_branch < 0 || p.rank < 1 || p.d_branch != first.pages.d_branch || p.rank != first.pages.rank ||
      p.branch_dtype != first.pages.branch_dtype) {
    return invalid_argument("%s: a set has d_branch = %d, rank = %d, %s, want %d, %d, %s as the first set", kOp,
                            p.d_branch, p.rank, dtype_name(p.branch_dtype), first.pages.d_branch, first.pages.rank,
                            dtype_name(first.pages.branch_dtype));
  }
  if (p.branch_dtype != DType::kBF16 && p.branch_dtype != DType::kF32) {
    return invalid_argument("%s: branch is %s, want BF16 or F32", kOp, dtype_name(p.branch_dtype));
  }
  VESTIGE_TRY(check::tensor({kOp, "basis"}, set.basis, {DType::kF32}, {p.rank, d_row - p.d_branch}));
  VESTIGE_TRY(check::dense({kOp, "basis"}, set.basis));
  if (p.rank > d_row - p.d_branch) {
    return invalid_argument("%s: rank = %d, want at most d_content = %" PRId64, kOp, p.rank, d_row - p.d_branch);
  }
  if (!(set.z >= 0) || set.z > 1e30f) {
    return invalid_argument("%s: z = %g, want a number of at least 0", kOp, static_cast<double>(set.z));
  }
  if (p.n_rows < 0 || p.n_rows > INT32_MAX) {
    return invalid_argument("%s: n_rows = %" PRId64 ", want 0 to %d", kOp, p.n_rows, INT32_MAX);
  }
  if (p.n_rows == 0) return {};
  if (p.page_rows <= 0) return invalid_argument("%s: page_rows = %" PRId64 ", want at least 1", kOp, p.page_rows);
  if ((p.d_branch > 0 && p.branch == nullptr) || p.sketch == nullptr || p.residual == nullptr) {
    return invalid_argument("%s: a table of index pages is null, want branch, sketch and residual", kOp);
  }
  return {};
}

}  // namespace

Status scan_archive_check(const ScanArchiveParams& p) {
  VESTIGE_TRY(check::step_queries(kOp, p.q, p.scale, p.sets.size()));
  const int64_t b = p.q.dim(0), h = p.q.dim(1);
  VESTIGE_TRY(check::tensor({kOp, "threshold"}, p.threshold, {DType::kF32}, {b, h}));
  VESTIGE_TRY(check::tensor({kOp, "ids"}, p.ids, {DType::kI32}, {b, -1}));
  VESTIGE_TRY(check::tensor({kOp, "n_ids"}, p.n_ids, {DType::kI32}, {b}));
  VESTIGE_TRY(check::tensor({kOp, "n_fired"}, p.n_fired, {DType::kI32}, {b}));
  VESTIGE_TRY(check::dense({kOp, "threshold"}, p.threshold));
  VESTIGE_TRY(check::dense({kOp, "ids"}, p.ids));
  for (const ScanSet& set : p.sets) VESTIGE_TRY(check_set(set, p.sets[0], p.q.dim(2)));
  return {};
}

}  // namespace vestige
