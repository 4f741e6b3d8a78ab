#include "vestige/ops/matmul.h"

#include "backend/ops/check.h"

namespace vestige {

Status matmul_check(const MatmulParams& p) {
  VESTIGE_TRY(check_rank(p.x, 2, "matmul", "x"));
  VESTIGE_TRY(check_rank(p.w, 2, "matmul", "w"));
  const int64_t m = p.x.dim(0), n = p.w.dim(0), k = p.x.dim(1);
  VESTIGE_TRY(check_view(p.x, {"matmul", "x", {m, k}, {DType::kF32}, Strides::kFree}));
  VESTIGE_TRY(check_view(
      p.w, {"matmul", "w", {n, k}, {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3}, Strides::kFree}));
  VESTIGE_TRY(check_scale(p.w, p.scale, "matmul"));
  VESTIGE_TRY(check_view(p.out, {"matmul", "out", {m, n}, {DType::kF32}, Strides::kDistinct}));
  return check_apart(p.x, p.out, "matmul", "x and out");
}

}  // namespace vestige
