#include "backend/ops/check_rows.h"
#include "vestige/ops/recall.h"

namespace vestige {

Status fit_basis_check(const FitBasisParams& p) {
  constexpr const char* kOp = "fit_basis";
  VESTIGE_TRY(check::tensor({kOp, "x"}, p.x, {DType::kF32}, {-1, -1}));
  const int64_t d = p.x.dim(1);
  if (p.x.dim(0) < 1 || d < 1) {
    return invalid_argument("%s: x is %s, want at least one sample and one column", kOp, describe(p.x).c_str());
  }
  VESTIGE_TRY(check::tensor({kOp, "basis"}, p.basis, {DType::kF32}, {-1, d}));
  VESTIGE_TRY(check::dense({kOp, "basis"}, p.basis));
  if (p.basis.dim(0) < 1 || p.basis.dim(0) > d) {
    return invalid_argument("%s: basis is %s, want 1 to %" PRId64 " rows", kOp, describe(p.basis).c_str(), d);
  }
  return {};
}

}  // namespace vestige
