#include "backend/ops/check.h"
#include "vestige/ops/rows.h"

namespace vestige {

Status gather_rows_check(const GatherRowsParams& p) {
  VESTIGE_TRY(check_rank(p.table, 2, "gather_rows", "table"));
  VESTIGE_TRY(check_rank(p.ids, 1, "gather_rows", "ids"));
  const int64_t v = p.table.dim(0), d = p.table.dim(1), t = p.ids.dim(0);
  VESTIGE_TRY(check_weight(p.table, p.scale, "gather_rows", "table"));
  VESTIGE_TRY(check_view(p.ids, {"gather_rows", "ids", {t}, {DType::kI32}}));
  VESTIGE_TRY(check_view(p.out, {"gather_rows", "out", {t, d}, {DType::kF32}, Strides::kDistinct}));
  return check_ids(p.ids, v, "gather_rows", "ids");
}

}  // namespace vestige
