#include "backend/ops/check.h"
#include "vestige/ops/rows.h"

namespace vestige {

Status rms_norm_check(const RmsNormParams& p) {
  VESTIGE_TRY(check_rank(p.x, 2, "rms_norm", "x"));
  const int64_t t = p.x.dim(0), d = p.x.dim(1);
  VESTIGE_TRY(check_view(p.x, {"rms_norm", "x", {t, d}, {DType::kF32}, Strides::kFree}));
  VESTIGE_TRY(check_view(p.weight, {"rms_norm", "weight", {d}, {DType::kF32, DType::kBF16, DType::kF16}}));
  if (p.gate.data != nullptr) {
    VESTIGE_TRY(check_view(p.gate, {"rms_norm", "gate", {t, d}, {DType::kF32}, Strides::kFree}));
  }
  VESTIGE_TRY(check_view(p.out, {"rms_norm", "out", {t, d}, {DType::kF32}, Strides::kDistinct}));
  if (!(p.eps > 0)) return invalid_argument("rms_norm: eps = %g, want > 0", static_cast<double>(p.eps));
  return {};
}

}  // namespace vestige
