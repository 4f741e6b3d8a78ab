#include "backend/ops/check_rows.h"
#include "vestige/ops/observe.h"

namespace vestige {

Status score_moments_check(const ScoreMomentsParams& p) {
  constexpr const char* kOp = "score_moments";
  VESTIGE_TRY(check::finite_scale(kOp, p.scale));
  VESTIGE_TRY(check::pages(kOp, p.rows));
  VESTIGE_TRY(check::tensor({kOp, "q"}, p.q, {DType::kF32}, {-1, -1, p.rows.layout.d_row()}));
  VESTIGE_TRY(check::dense({kOp, "q"}, p.q));
  const int64_t n = p.q.dim(0), h = p.q.dim(1);
  if (n < 1 || h < 1) {
    return invalid_argument("%s: q is %s, want at least one query and one head", kOp, describe(p.q).c_str());
  }
  for (const auto& [name, view] : {std::pair("mean", &p.mean), std::pair("variance", &p.variance)}) {
    VESTIGE_TRY(check::tensor({kOp, name}, *view, {DType::kF32}, {h, p.rows.n_rows}));
    VESTIGE_TRY(check::dense({kOp, name}, *view));
  }
  return {};
}

}  // namespace vestige
