#include "backend/ops/check_rows.h"
#include "vestige/ops/recall.h"

namespace vestige {

Status sketch_rows_check(const SketchRowsParams& p) {
  constexpr const char* kOp = "sketch_rows";
  VESTIGE_TRY(check::tensor({kOp, "content"}, p.content, {DType::kBF16, DType::kF32}, {-1, -1}));
  const int64_t n = p.content.dim(0), d = p.content.dim(1);
  VESTIGE_TRY(check::tensor({kOp, "basis"}, p.basis, {DType::kF32}, {-1, d}));
  VESTIGE_TRY(check::dense({kOp, "basis"}, p.basis));
  const int64_t r = p.basis.dim(0);
  if (r < 1 || r > d) {
    return invalid_argument("%s: basis is %s, want 1 to %" PRId64 " rows", kOp, describe(p.basis).c_str(), d);
  }
  VESTIGE_TRY(check::tensor({kOp, "sketch"}, p.sketch, {DType::kF16}, {n, r}));
  VESTIGE_TRY(check::dense({kOp, "sketch"}, p.sketch));
  return check::tensor({kOp, "residual"}, p.residual, {DType::kF32}, {n});
}

}  // namespace vestige
