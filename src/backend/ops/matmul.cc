#include "vestige/ops/matmul.h"

#include "backend/ops/check.h"

namespace vestige {

Status matmul_check(const MatmulParams& p) {
  VESTIGE_TRY(check_rank(p.x, 2, "matmul", "x"));
  VESTIGE_TRY(check_rank(p.w, 2, "matmul", "w"));
  const int64_t m = p.x.dim(0), n = p.w.dim(0), k = p.x.dim(1);
  VESTIGE_TRY(check_view(p.x, {"matmul", "x", {m, k}, {DType::kF32}, Strides::kFree}));
  VESTIGE_TRY(check_weight(p.w, p.scale, "matmul", "w"));
  if (p.w.dim(1) != k) {
    return invalid_argument("matmul: w is %s, want [%lld, %lld]", describe(p.w).c_str(), static_cast<long long>(n),
                            static_cast<long long>(k));
  }
  VESTIGE_TRY(check_view(p.out, {"matmul", "out", {m, n}, {DType::kF32}, Strides::kDistinct}));
  return check_apart(p.x, p.out, "matmul", "x and out");
}

}  // namespace vestige
