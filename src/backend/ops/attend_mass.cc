#include "backend/ops/check_rows.h"
#include "vestige/ops/observe.h"

namespace vestige {

Status attend_mass_check(const AttendMassParams& p) {
  constexpr const char* kOp = "attend_mass";
  VESTIGE_TRY(check::finite_scale(kOp, p.scale));
  VESTIGE_TRY(check::pages(kOp, p.rows));
  VESTIGE_TRY(check::tensor({kOp, "q"}, p.q, {DType::kF32}, {-1, -1, p.rows.layout.d_row()}));
  VESTIGE_TRY(check::dense({kOp, "q"}, p.q));
  if (p.q.dim(1) < 1) return invalid_argument("%s: q is %s, want at least one head", kOp, describe(p.q).c_str());
  if (p.first_position < 0) {
    return invalid_argument("%s: first_position = %" PRId64 ", want at least 0", kOp, p.first_position);
  }
  if (p.mass.rank == 0 && p.peak.rank == 0) return invalid_argument("%s: mass and peak are absent, want one", kOp);
  if (p.mass.rank > 0) VESTIGE_TRY(check::tensor({kOp, "mass"}, p.mass, {DType::kI64}, {p.rows.n_rows}));
  if (p.peak.rank > 0) VESTIGE_TRY(check::tensor({kOp, "peak"}, p.peak, {DType::kF32}, {p.rows.n_rows}));
  return {};
}

}  // namespace vestige
