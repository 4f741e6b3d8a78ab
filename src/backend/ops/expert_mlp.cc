#include "backend/ops/check.h"
#include "vestige/ops/experts.h"

namespace vestige {

namespace {

constexpr auto kWeightTypes = {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3};

Status check_expert(const ExpertWeights& w, int64_t d, int64_t d_ff) {
  VESTIGE_TRY(check_view(w.gate, {"expert_mlp", "gate", {d_ff, d}, kWeightTypes, Strides::kFree}));
  VESTIGE_TRY(check_view(w.up, {"expert_mlp", "up", {d_ff, d}, kWeightTypes, Strides::kFree}));
  VESTIGE_TRY(check_view(w.down, {"expert_mlp", "down", {d, d_ff}, kWeightTypes, Strides::kFree}));
  VESTIGE_TRY(check_scale(w.gate, w.gate_scale, "expert_mlp", "gate_scale"));
  VESTIGE_TRY(check_scale(w.up, w.up_scale, "expert_mlp", "up_scale"));
  return check_scale(w.down, w.down_scale, "expert_mlp", "down_scale");
}

}  // namespace

Status expert_mlp_check(const ExpertMlpParams& p) {
  VESTIGE_TRY(check_rank(p.x, 2, "expert_mlp", "x"));
  VESTIGE_TRY(check_rank(p.ids, 2, "expert_mlp", "ids"));
  const int64_t t = p.x.dim(0), d = p.x.dim(1), top_k = p.ids.dim(1);
  VESTIGE_TRY(check_view(p.x, {"expert_mlp", "x", {t, d}, {DType::kF32}, Strides::kFree}));
  VESTIGE_TRY(check_view(p.ids, {"expert_mlp", "ids", {t, top_k}, {DType::kI32}}));
  VESTIGE_TRY(check_view(p.weights, {"expert_mlp", "weights", {t, top_k}, {DType::kF32}}));
  VESTIGE_TRY(check_view(p.out, {"expert_mlp", "out", {t, d}, {DType::kF32}, Strides::kDistinct}));
  VESTIGE_TRY(check_apart(p.x, p.out, "expert_mlp", "x and out"));
  for (const ExpertWeights& w : p.experts) {
    VESTIGE_TRY(check_rank(w.gate, 2, "expert_mlp", "gate"));
    const Status status = check_expert(w, d, p.experts.front().gate.dim(0));
    if (!status.ok()) return status.with_context("expert " + std::to_string(&w - p.experts.data()));
  }
  return check_ids(p.ids, static_cast<int64_t>(p.experts.size()), "expert_mlp", "ids");
}

}  // namespace vestige
