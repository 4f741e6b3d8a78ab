#include "backend/ops/check_rows.h"
#include "vestige/ops/pages.h"

namespace vestige {

Status digest_pages_check(const DigestPagesParams& p) {
  constexpr const char* kOp = "digest_pages";
  VESTIGE_TRY(check::pages(kOp, p.rows));
  if (p.page_rows < 1 || (p.rows.n_rows > 0 && p.rows.page_rows % p.page_rows != 0)) {
    return invalid_argument("%s: page_rows = %" PRId64 ", want a divisor of the block's %" PRId64, kOp, p.page_rows,
                            p.rows.page_rows);
  }
  const DType dtype = p.rows.layout.dtype;
  const int64_t d = p.rows.layout.d_row();
  VESTIGE_TRY(check::tensor({kOp, "upper"}, p.upper, {dtype}, {-1, d}));
  VESTIGE_TRY(check::dense({kOp, "upper"}, p.upper));
  const int64_t n = p.upper.dim(0);
  if (p.digest == PageDigest::kBox) {
    VESTIGE_TRY(check::tensor({kOp, "lower"}, p.lower, {dtype}, {n, d}));
    VESTIGE_TRY(check::dense({kOp, "lower"}, p.lower));
  } else if (p.lower.rank != 0) {
    return invalid_argument("%s: lower is %s, want none for a sphere", kOp, describe(p.lower).c_str());
  }
  VESTIGE_TRY(check::tensor({kOp, "radius"}, p.radius, {DType::kF32}, {n}));
  if (p.first_row < 0 || p.first_row % p.page_rows != 0 || p.first_row > p.rows.n_rows ||
      n > (p.rows.n_rows - p.first_row) / p.page_rows) {
    return invalid_argument("%s: %" PRId64 " pages of %" PRId64 " rows from row %" PRId64
                            ", want whole pages inside %" PRId64 " rows",
                            kOp, n, p.page_rows, p.first_row, p.rows.n_rows);
  }
  return {};
}

}  // namespace vestige
