#include "backend/ops/check_rows.h"
#include "vestige/ops/attend.h"

namespace vestige {

Status merge_parts_check(const MergePartsParams& p) {
  constexpr const char* kOp = "merge_parts";
  VESTIGE_TRY(check::tensor({kOp, "part"}, p.part, {DType::kF32}, {-1, -1, -1, -1}));
  const int64_t n = p.part.dim(0), b = p.part.dim(1), h = p.part.dim(2), d = p.part.dim(3);
  VESTIGE_TRY(check::tensor({kOp, "lse"}, p.lse, {DType::kF32}, {n, b, h}));
  VESTIGE_TRY(check::dense_inner({kOp, "part"}, p.part));
  VESTIGE_TRY(check::dense_inner({kOp, "lse"}, p.lse));
  VESTIGE_TRY(check::tensor({kOp, "out"}, p.out, {DType::kF32}, {b, h, d}));
  VESTIGE_TRY(check::dense({kOp, "out"}, p.out));
  if (p.lse_out.empty()) return {};
  VESTIGE_TRY(check::tensor({kOp, "lse_out"}, p.lse_out, {DType::kF32}, {b, h}));
  return check::dense({kOp, "lse_out"}, p.lse_out);
}

}  // namespace vestige
