#include "backend/ops/check_rows.h"
#include "vestige/ops/attend.h"

namespace vestige {

Status attend_prefill_check(const AttendPrefillParams& p) {
  constexpr const char* kOp = "attend_prefill";
  VESTIGE_TRY(check::finite_scale(kOp, p.scale));
  VESTIGE_TRY(check::pages(kOp, p.rows));
  const int64_t d_content = p.rows.layout.d_content;
  VESTIGE_TRY(check::tensor({kOp, "w_uk"}, p.w_uk, {DType::kF32, DType::kBF16}, {-1, -1, d_content}));
  const int64_t h = p.w_uk.dim(0);
  VESTIGE_TRY(check::tensor({kOp, "w_uv"}, p.w_uv, {DType::kF32, DType::kBF16}, {h, -1, d_content}));
  VESTIGE_TRY(check::dense_inner({kOp, "w_uk"}, p.w_uk));
  VESTIGE_TRY(check::dense_inner({kOp, "w_uv"}, p.w_uv));
  const int64_t d_qk = p.w_uk.dim(1) + p.rows.layout.d_branch;
  VESTIGE_TRY(check::tensor({kOp, "q"}, p.q, {DType::kF32}, {-1, h, d_qk}));
  VESTIGE_TRY(check::tensor({kOp, "out"}, p.out, {DType::kF32}, {p.q.dim(0), h, p.w_uv.dim(1)}));
  VESTIGE_TRY(check::dense({kOp, "q"}, p.q));
  VESTIGE_TRY(check::dense({kOp, "out"}, p.out));
  if (h < 1 || p.w_uk.dim(1) < 1 || p.w_uv.dim(1) < 1) {
    return invalid_argument("%s: w_uk is %s and w_uv %s, want no empty dimension", kOp, describe(p.w_uk).c_str(),
                            describe(p.w_uv).c_str());
  }
  if (p.position < 0 || p.position > p.rows.n_rows - p.q.dim(0)) {
    return invalid_argument("%s: position = %" PRId64 " with %" PRId64 " queries and %" PRId64
                            " rows, want position >= 0 and a row for each query",
                            kOp, p.position, p.q.dim(0), p.rows.n_rows);
  }
  return {};
}

}  // namespace vestige
