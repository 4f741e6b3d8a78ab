#include "backend/ops/check_rows.h"
#include "vestige/ops/attend.h"

namespace vestige {

Status attend_prefill_gqa_check(const AttendPrefillGqaParams& p) {
  constexpr const char* kOp = "attend_prefill_gqa";
  VESTIGE_TRY(check::finite_scale(kOp, p.scale));
  VESTIGE_TRY(check::tensor({kOp, "q"}, p.q, {DType::kF32}, {-1, -1, -1}));
  const int64_t t = p.q.dim(0), h = p.q.dim(1), n_kv = static_cast<int64_t>(p.rows.size());
  if (n_kv < 1 || h < 1 || h % n_kv != 0) {
    return invalid_argument("%s: rows has %" PRId64 " key heads, want a divisor of the %" PRId64 " query heads", kOp,
                            n_kv, h);
  }
  const RowLayout& layout = p.rows[0].layout;
  for (const RowPages& rows : p.rows) {
    VESTIGE_TRY(check::pages(kOp, rows));
    if (rows.layout != layout) return invalid_argument("%s: rows have different layouts, want one", kOp);
    if (p.position < 0 || p.position > rows.n_rows - t) {
      return invalid_argument("%s: position = %" PRId64 " with %" PRId64 " queries and %" PRId64
                              " rows, want position >= 0 and a row for each query",
                              kOp, p.position, t, rows.n_rows);
    }
  }
  if (layout.scored_content) return invalid_argument("%s: rows have scored content, want [value ; key]", kOp);
  VESTIGE_TRY(check::tensor({kOp, "q"}, p.q, {DType::kF32}, {t, h, layout.d_branch}));
  VESTIGE_TRY(check::tensor({kOp, "out"}, p.out, {DType::kF32}, {t, h, layout.d_content}));
  VESTIGE_TRY(check::dense({kOp, "q"}, p.q));
  return check::dense({kOp, "out"}, p.out);
}

}  // namespace vestige
