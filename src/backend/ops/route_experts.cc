#include "backend/ops/check.h"
#include "vestige/ops/experts.h"

namespace vestige {

Status route_experts_check(const RouteExpertsParams& p) {
  VESTIGE_TRY(check_rank(p.logits, 2, "route_experts", "logits"));
  VESTIGE_TRY(check_rank(p.ids, 2, "route_experts", "ids"));
  const int64_t t = p.logits.dim(0), e = p.logits.dim(1), top_k = p.ids.dim(1);
  VESTIGE_TRY(check_view(p.logits, {"route_experts", "logits", {t, e}, {DType::kF32}, Strides::kFree}));
  if (p.bias.data != nullptr) VESTIGE_TRY(check_view(p.bias, {"route_experts", "bias", {e}, {DType::kF32}}));
  VESTIGE_TRY(check_view(p.ids, {"route_experts", "ids", {t, top_k}, {DType::kI32}}));
  VESTIGE_TRY(check_view(p.weights, {"route_experts", "weights", {t, top_k}, {DType::kF32}}));
  if (p.n_groups < 1 || e % p.n_groups != 0) {
    return invalid_argument("route_experts: n_groups = %d, want a divisor of %lld experts", p.n_groups,
                            static_cast<long long>(e));
  }
  if (p.topk_group < 1 || p.topk_group > p.n_groups) {
    return invalid_argument("route_experts: topk_group = %d, want [1, %d]", p.topk_group, p.n_groups);
  }
  const int64_t reachable = e / p.n_groups * p.topk_group;
  if (top_k < 1 || top_k > reachable) {
    return invalid_argument("route_experts: top_k = %lld, want [1, %lld], the experts of the kept groups",
                            static_cast<long long>(top_k), static_cast<long long>(reachable));
  }
  return {};
}

}  // namespace vestige
