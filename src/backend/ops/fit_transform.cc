#include "backend/ops/check_rows.h"
#include "vestige/ops/codes.h"

namespace vestige {

Status fit_transform_check(const FitTransformParams& p) {
  constexpr const char* kOp = "fit_transform";
  VESTIGE_TRY(check::tensor({kOp, "queries"}, p.queries, {DType::kF32}, {-1, -1, -1}));
  VESTIGE_TRY(check::dense({kOp, "queries"}, p.queries));
  const int64_t d = p.queries.dim(2), h = p.queries.dim(1);
  VESTIGE_TRY(check::tensor({kOp, "rows"}, p.rows, {DType::kF32}, {-1, d}));
  VESTIGE_TRY(check::dense({kOp, "rows"}, p.rows));
  if (p.queries.dim(0) < 1 || h < 1 || d < 1 || p.rows.dim(0) < 1) {
    return invalid_argument("%s: queries are %s and rows %s, want at least one of each", kOp,
                            describe(p.queries).c_str(), describe(p.rows).c_str());
  }
  if (!p.value_gram.empty()) {
    const int64_t d_content = p.value_gram.rank == 2 ? p.value_gram.dim(0) : 0;
    VESTIGE_TRY(check::tensor({kOp, "value_gram"}, p.value_gram, {DType::kF32}, {d_content, d_content}));
    VESTIGE_TRY(check::dense({kOp, "value_gram"}, p.value_gram));
    if (d_content < 1 || d_content > d) {
      return invalid_argument("%s: value_gram is %s, want 1 to %" PRId64 " rows", kOp, describe(p.value_gram).c_str(),
                              d);
    }
  }
  for (const auto& [name, value] : {std::pair{"ridge", p.ridge}, std::pair{"group_ridge", p.group_ridge}}) {
    if (!(value > 0 && value <= 1)) {
      return invalid_argument("%s: %s = %g, want above 0, at most 1", kOp, name, static_cast<double>(value));
    }
  }
  VESTIGE_TRY(check::tensor({kOp, "mean"}, p.mean, {DType::kF32}, {d}));
  VESTIGE_TRY(check::tensor({kOp, "variance"}, p.variance, {DType::kF32}, {d}));
  for (const auto& [name, view] : {std::pair{"forward", p.forward}, std::pair{"dual", p.dual}}) {
    VESTIGE_TRY(check::tensor({kOp, name}, view, {DType::kF32}, {d, d}));
    VESTIGE_TRY(check::dense({kOp, name}, view));
  }
  VESTIGE_TRY(check::tensor({kOp, "metric"}, p.metric, {DType::kF32}, {-1, -1, d}));
  const int64_t n_groups = p.metric.dim(0), rank = p.metric.dim(1);
  if (n_groups < 1 || h % n_groups != 0 || rank < 1 || rank > d) {
    return invalid_argument("%s: metric is %s, want groups that divide %" PRId64 " heads, of rank 1 to %" PRId64, kOp,
                            describe(p.metric).c_str(), h, d);
  }
  VESTIGE_TRY(check::tensor({kOp, "white"}, p.white, {DType::kF32}, {n_groups, rank, d}));
  VESTIGE_TRY(check::dense({kOp, "metric"}, p.metric));
  VESTIGE_TRY(check::dense({kOp, "white"}, p.white));
  return check::tensor({kOp, "ridge"}, p.ridge_out, {DType::kF32}, {n_groups});
}

}  // namespace vestige
