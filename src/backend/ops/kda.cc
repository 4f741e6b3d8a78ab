#include "vestige/ops/kda.h"

#include "backend/ops/check.h"

namespace vestige {

Status kda_check(const KdaParams& p) {
  VESTIGE_TRY(check_rank(p.q, 3, "kda", "q"));
  VESTIGE_TRY(check_rank(p.v, 3, "kda", "v"));
  const int64_t t = p.q.dim(0), h = p.q.dim(1), d_k = p.q.dim(2), d_v = p.v.dim(2);
  VESTIGE_TRY(check_view(p.q, {"kda", "q", {t, h, d_k}, {DType::kF32}, Strides::kFree}));
  VESTIGE_TRY(check_view(p.k, {"kda", "k", {t, h, d_k}, {DType::kF32}, Strides::kFree}));
  VESTIGE_TRY(check_view(p.v, {"kda", "v", {t, h, d_v}, {DType::kF32}, Strides::kFree}));
  VESTIGE_TRY(check_view(p.decay, {"kda", "decay", {t, h, d_k}, {DType::kF32}, Strides::kFree}));
  VESTIGE_TRY(check_view(p.beta, {"kda", "beta", {t, h}, {DType::kF32}, Strides::kFree}));
  VESTIGE_TRY(check_view(p.state, {"kda", "state", {h, d_k, d_v}, {DType::kF32}}));
  return check_view(p.out, {"kda", "out", {t, h, d_v}, {DType::kF32}, Strides::kDistinct});
}

}  // namespace vestige
