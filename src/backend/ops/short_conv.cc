#include "backend/ops/check.h"
#include "vestige/ops/rows.h"

namespace vestige {

Status short_conv_check(const ShortConvParams& p) {
  VESTIGE_TRY(check_rank(p.x, 2, "short_conv", "x"));
  VESTIGE_TRY(check_rank(p.weight, 2, "short_conv", "weight"));
  const int64_t t = p.x.dim(0), n = p.x.dim(1), width = p.weight.dim(1);
  if (width < 2) return invalid_argument("short_conv: width = %lld, want >= 2", static_cast<long long>(width));
  VESTIGE_TRY(check_view(p.x, {"short_conv", "x", {t, n}, {DType::kF32}, Strides::kFree}));
  VESTIGE_TRY(check_view(p.weight, {"short_conv", "weight", {n, width}, {DType::kF32, DType::kBF16, DType::kF16}}));
  VESTIGE_TRY(check_view(p.state, {"short_conv", "state", {width - 1, n}, {DType::kF32}, Strides::kDistinct}));
  VESTIGE_TRY(check_view(p.out, {"short_conv", "out", {t, n}, {DType::kF32}, Strides::kDistinct}));
  return check_apart(p.x, p.out, "short_conv", "x and out");
}

}  // namespace vestige
