#include "backend/ops/check_planes.h"

namespace vestige {

Status attend_planes_check(const AttendPlanesParams& p) {
  constexpr const char* kOp = "attend_planes";
  VESTIGE_TRY(check::finite_scale(kOp, p.scale));
  VESTIGE_TRY(check::plane_rows(kOp, p.rows));
  const int64_t d = p.rows.key.mean.dim(0);
  VESTIGE_TRY(check::tensor({kOp, "codes"}, p.rows.codes, {DType::kU8}, {-1}));
  VESTIGE_TRY(check::tensor({kOp, "q"}, p.q, {DType::kF32}, {-1, d}));
  const int64_t m = p.q.dim(0);
  if (m < 1) return invalid_argument("%s: q is %s, want at least one head", kOp, describe(p.q).c_str());
  if (p.first_position < 0) {
    return invalid_argument("%s: first_position = %" PRId64 ", want 0 or more", kOp, p.first_position);
  }
  if (p.frequencies.data != nullptr) {
    VESTIGE_TRY(check::tensor({kOp, "frequencies"}, p.frequencies, {DType::kF32}, {-1}));
    if (p.frequencies.dim(0) > d / 2) {
      return invalid_argument("%s: frequencies has %" PRId64 " entries, want at most %" PRId64, kOp,
                              p.frequencies.dim(0), d / 2);
    }
  }
  VESTIGE_TRY(check::tensor({kOp, "out"}, p.out, {DType::kF32}, {m, d}));
  if (m > 1 && p.out.stride[0] < d) {
    return invalid_argument("%s: out has rows %" PRId64 " apart, want at least %" PRId64, kOp, p.out.stride[0], d);
  }
  VESTIGE_TRY(check::tensor({kOp, "lse"}, p.lse, {DType::kF32}, {m}));
  return check::dense({kOp, "lse"}, p.lse);
}

}  // namespace vestige
