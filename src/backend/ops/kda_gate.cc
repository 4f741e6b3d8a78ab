#include "backend/ops/check.h"
#include "vestige/ops/kda.h"

namespace vestige {

namespace {

// Checkpoints store A_log as [1, 1, h, 1]: only the number of elements counts.
Status check_flat(const ConstTensorView& view, int64_t n, const char* field) {
  const bool dtype_ok = view.dtype == DType::kF32 || view.dtype == DType::kBF16;
  if (view.n_elements() == n && dtype_ok && view.contiguous() && (n == 0 || view.data != nullptr)) return {};
  return invalid_argument("kda_gate: %s is %s, want %lld dense F32 or BF16", field, describe(view).c_str(),
                          static_cast<long long>(n));
}

}  // namespace

Status kda_gate_check(const KdaGateParams& p) {
  VESTIGE_TRY(check_rank(p.x, 3, "kda_gate", "x"));
  const int64_t t = p.x.dim(0), h = p.x.dim(1), d_k = p.x.dim(2);
  VESTIGE_TRY(check_view(p.x, {"kda_gate", "x", {t, h, d_k}, {DType::kF32}, Strides::kFree}));
  VESTIGE_TRY(check_flat(p.a_log, h, "a_log"));
  VESTIGE_TRY(check_flat(p.dt_bias, h * d_k, "dt_bias"));
  VESTIGE_TRY(check_view(p.decay, {"kda_gate", "decay", {t, h, d_k}, {DType::kF32}, Strides::kDistinct}));
  return check_view(p.beta, {"kda_gate", "beta", {t, h}, {DType::kF32}, Strides::kDistinct});
}

}  // namespace vestige
