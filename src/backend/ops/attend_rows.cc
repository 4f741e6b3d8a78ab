#include "backend/ops/check_rows.h"
#include "vestige/ops/attend.h"

namespace vestige {

Status attend_rows_check(const AttendRowsParams& p) {
  constexpr const char* kOp = "attend_rows";
  VESTIGE_TRY(check::finite_scale(kOp, p.scale));
  VESTIGE_TRY(check::tensor({kOp, "q"}, p.q, {DType::kF32}, {-1, -1, -1}));
  VESTIGE_TRY(check::dense({kOp, "q"}, p.q));
  const int64_t b = p.q.dim(0), h = p.q.dim(1);
  if (static_cast<int64_t>(p.rows.size()) != b) {
    return invalid_argument("%s: rows has %zu sets, want %" PRId64 ", one a sequence", kOp, p.rows.size(), b);
  }
  if (h < 1) return invalid_argument("%s: q is %s, want at least one head", kOp, describe(p.q).c_str());
  if (b == 0) return {};
  const RowLayout& layout = p.rows[0].pages.layout;
  for (const RowSet& set : p.rows) {
    VESTIGE_TRY(check::pages(kOp, set.pages));
    if (set.pages.layout != layout) return invalid_argument("%s: rows have different layouts, want one", kOp);
    if (set.ids != nullptr && set.n_rows == nullptr) {
      return invalid_argument("%s: rows have ids without n_rows, want both or none", kOp);
    }
  }
  VESTIGE_TRY(check::tensor({kOp, "q"}, p.q, {DType::kF32}, {b, h, layout.d_row()}));
  VESTIGE_TRY(check::tensor({kOp, "out"}, p.out, {DType::kF32}, {b, h, layout.d_content}));
  VESTIGE_TRY(check::tensor({kOp, "lse"}, p.lse, {DType::kF32}, {b, h}));
  VESTIGE_TRY(check::dense({kOp, "out"}, p.out));
  VESTIGE_TRY(check::dense({kOp, "lse"}, p.lse));
  if (p.max.empty()) return {};
  VESTIGE_TRY(check::tensor({kOp, "max"}, p.max, {DType::kF32}, {b, h}));
  return check::dense({kOp, "max"}, p.max);
}

}  // namespace vestige
