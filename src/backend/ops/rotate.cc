#include <cmath>

#include "backend/ops/check.h"
#include "vestige/ops/rows.h"

namespace vestige {

Status rotate_check(const RotateParams& p) {
  VESTIGE_TRY(check_rank(p.x, 3, "rotate", "x"));
  const int64_t t = p.x.dim(0), h = p.x.dim(1), d = p.x.dim(2);
  VESTIGE_TRY(check_view(p.x, {"rotate", "x", {t, h, d}, {DType::kF32}, Strides::kDistinct}));
  if (d % 2 != 0) return invalid_argument("rotate: d = %lld, want an even number", static_cast<long long>(d));
  VESTIGE_TRY(check_view(p.positions, {"rotate", "positions", {t}, {DType::kI32}}));
  VESTIGE_TRY(check_view(p.frequencies, {"rotate", "frequencies", {d / 2}, {DType::kF32}}));
  if (!(p.scale > 0) || !std::isfinite(p.scale)) {
    return invalid_argument("rotate: scale = %g, want a finite number > 0", static_cast<double>(p.scale));
  }
  return check_ids(p.positions, int64_t{1} << 31, "rotate", "positions");
}

}  // namespace vestige
