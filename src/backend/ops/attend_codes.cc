#include "backend/ops/check_codes.h"
#include "backend/ops/check_rows.h"

namespace vestige {

Status attend_codes_check(const AttendCodesParams& p) {
  constexpr const char* kOp = "attend_codes";
  VESTIGE_TRY(check::step_queries(kOp, p.q, p.scale, p.sets.size()));
  const int64_t b = p.q.dim(0), h = p.q.dim(1);
  if (!(p.value_base > 0 && p.value_base < 1e30f)) {
    return invalid_argument("%s: value_base = %g, want above 0", kOp, static_cast<double>(p.value_base));
  }
  VESTIGE_TRY(check::tensor({kOp, "skip"}, p.skip, {DType::kI32}, {b, -1}));
  VESTIGE_TRY(check::dense({kOp, "skip"}, p.skip));
  VESTIGE_TRY(check::tensor({kOp, "n_skip"}, p.n_skip, {DType::kI32}, {b}));
  VESTIGE_TRY(check::tensor({kOp, "lse"}, p.lse, {DType::kF32}, {b, h}));
  VESTIGE_TRY(check::dense({kOp, "lse"}, p.lse));
  VESTIGE_TRY(check::tensor({kOp, "error"}, p.error, {DType::kF32}, {b, h, 3}));
  VESTIGE_TRY(check::dense({kOp, "error"}, p.error));
  VESTIGE_TRY(check::tensor({kOp, "n_coded"}, p.n_coded, {DType::kI64}, {b}));
  for (const CodeSet& set : p.sets) {
    VESTIGE_TRY(check::code_set(kOp, set, p.q.dim(2), h));
    VESTIGE_TRY(check::tensor({kOp, "out"}, p.out, {DType::kF32}, {b, h, set.d_content}));
    if (set.pages.n_rows > 0 && set.pages.value_norm == nullptr) {
      return invalid_argument("%s: value_norm is null, want a table of pages", kOp);
    }
  }
  return check::dense({kOp, "out"}, p.out);
}

}  // namespace vestige
