#include "backend/ops/check.h"
#include "vestige/ops/rows.h"

namespace vestige {

Status silu_mul_check(const SiluMulParams& p) {
  VESTIGE_TRY(check_rank(p.gate, 2, "silu_mul", "gate"));
  const int64_t t = p.gate.dim(0), n = p.gate.dim(1);
  VESTIGE_TRY(check_view(p.gate, {"silu_mul", "gate", {t, n}, {DType::kF32}, Strides::kFree}));
  VESTIGE_TRY(check_view(p.up, {"silu_mul", "up", {t, n}, {DType::kF32}, Strides::kFree}));
  return check_view(p.out, {"silu_mul", "out", {t, n}, {DType::kF32}, Strides::kDistinct});
}

}  // namespace vestige
