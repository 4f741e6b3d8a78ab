#include "backend/ops/check_rows.h"
#include "vestige/ops/anchor.h"

namespace vestige {

Status nearest_anchor_check(const NearestAnchorParams& p) {
  constexpr const char* kOp = "nearest_anchor";
  VESTIGE_TRY(check::tensor({kOp, "x"}, p.x, {DType::kF32, DType::kBF16}, {-1, -1}));
  const int64_t n = p.x.dim(0), d = p.x.dim(1);
  VESTIGE_TRY(check::tensor({kOp, "anchors"}, p.anchors, {DType::kF32, DType::kBF16}, {-1, d}));
  if (d < 1 || d > 4096) return invalid_argument("%s: x is %" PRId64 " wide, want 1 to 4096", kOp, d);
  if (p.anchors.dim(0) < 1 || p.anchors.dim(0) > 65536) {
    return invalid_argument("%s: anchors has %" PRId64 " rows, want 1 to 65536", kOp, p.anchors.dim(0));
  }
  VESTIGE_TRY(check::tensor({kOp, "index"}, p.index, {DType::kI32}, {n}));
  VESTIGE_TRY(check::tensor({kOp, "gamma"}, p.gamma, {DType::kF32}, {n}));
  return p.cosine.data == nullptr ? Status() : check::tensor({kOp, "cosine"}, p.cosine, {DType::kF32}, {n});
}

}  // namespace vestige
