#include "backend/ops/check.h"
#include "vestige/ops/matmul.h"

namespace vestige {

Status head_matmul_check(const HeadMatmulParams& p) {
  VESTIGE_TRY(check_rank(p.x, 3, "head_matmul", "x"));
  VESTIGE_TRY(check_rank(p.out, 3, "head_matmul", "out"));
  const int64_t t = p.x.dim(0), h = p.x.dim(1), k = p.x.dim(2), n = p.out.dim(2);
  VESTIGE_TRY(check_view(p.x, {"head_matmul", "x", {t, h, k}, {DType::kF32}, Strides::kFree}));
  VESTIGE_TRY(check_view(p.w, {"head_matmul",
                               "w",
                               {h, p.transposed ? k : n, p.transposed ? n : k},
                               {DType::kF32, DType::kBF16, DType::kF16},
                               Strides::kFree}));
  // Heads may lie inside or outside tokens, so distinctness is checked for neither order; x is.
  VESTIGE_TRY(check_view(p.out, {"head_matmul", "out", {t, h, n}, {DType::kF32}, Strides::kFree}));
  if (!p.out.empty() && p.out.data == p.x.data) return invalid_argument("head_matmul: x and out overlap");
  return {};
}

}  // namespace vestige
