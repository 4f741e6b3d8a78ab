#include "backend/ops/check_rows.h"
#include "vestige/ops/pages.h"

namespace vestige {

namespace {

constexpr const char* kOp = "scan_pages";

Status check_set(const PageSet& s, const PageSet& first) {
  if (s.dtype != DType::kBF16 && s.dtype != DType::kF32) {
    return invalid_argument("%s: digests are %s, want BF16 or F32", kOp, dtype_name(s.dtype));
  }
  if (s.dtype != first.dtype || (s.lower == nullptr) != (first.lower == nullptr)) {
    return invalid_argument("%s: a set's digests are of another kind than the first set's", kOp);
  }
  if (s.n_pages < 0 || s.page_rows < 1 || s.n_pages > INT32_MAX / s.page_rows) {
    return invalid_argument("%s: n_pages = %" PRId64 " of %" PRId64 " rows, want 0 to %d rows", kOp, s.n_pages,
                            s.page_rows, INT32_MAX);
  }
  if (s.n_pages == 0) return {};
  if (s.block_pages < 1) return invalid_argument("%s: block_pages = %" PRId64 ", want at least 1", kOp, s.block_pages);
  if (s.upper == nullptr || s.radius == nullptr) {
    return invalid_argument("%s: a table of digests is null, want upper and radius", kOp);
  }
  return {};
}

}  // namespace

Status scan_pages_check(const ScanPagesParams& p) {
  VESTIGE_TRY(check::step_queries(kOp, p.q, p.scale, p.sets.size()));
  const int64_t b = p.q.dim(0), h = p.q.dim(1);
  if (p.q.dim(2) < 1) {
    return invalid_argument("%s: q is %s, want at least one column", kOp, describe(p.q).c_str());
  }
  if (p.top_k < 0) return invalid_argument("%s: top_k = %" PRId64 ", want at least 0", kOp, p.top_k);
  if (p.top_k == 0) {
    VESTIGE_TRY(check::tensor({kOp, "threshold"}, p.threshold, {DType::kF32}, {b, h}));
    VESTIGE_TRY(check::dense({kOp, "threshold"}, p.threshold));
  } else if (p.threshold.rank != 0) {
    return invalid_argument("%s: threshold is %s, want none with top_k", kOp, describe(p.threshold).c_str());
  }
  VESTIGE_TRY(check::tensor({kOp, "ids"}, p.ids, {DType::kI32}, {b, -1}));
  VESTIGE_TRY(check::dense({kOp, "ids"}, p.ids));
  VESTIGE_TRY(check::tensor({kOp, "n_ids"}, p.n_ids, {DType::kI32}, {b}));
  VESTIGE_TRY(check::tensor({kOp, "n_fired"}, p.n_fired, {DType::kI32}, {b}));
  if (p.n_pages.rank != 0) VESTIGE_TRY(check::tensor({kOp, "n_pages"}, p.n_pages, {DType::kI32}, {b}));
  for (const PageSet& set : p.sets) VESTIGE_TRY(check_set(set, p.sets[0]));
  return {};
}

}  // namespace vestige
