#include <cmath>

#include "backend/ops/check_codes.h"
#include "backend/ops/check_rows.h"

namespace vestige {

Status scan_codes_check(const ScanCodesParams& p) {
  constexpr const char* kOp = "scan_codes";
  VESTIGE_TRY(check::step_queries(kOp, p.q, p.scale, p.sets.size()));
  const int64_t b = p.q.dim(0), h = p.q.dim(1);
  if (p.top_j < 0) return invalid_argument("%s: top_j = %d, want at least 0", kOp, p.top_j);
  if (p.n_free < 0) return invalid_argument("%s: n_free = %d, want at least 0", kOp, p.n_free);
  if (!(p.share >= 0 && std::isfinite(p.share))) {
    return invalid_argument("%s: share = %g, want at least 0 and finite", kOp, double(p.share));
  }
  for (const auto& [name, view] : {std::pair{"threshold", p.threshold}, std::pair{"reference", p.reference},
                                   std::pair{"omitted", ConstTensorView(p.omitted)}}) {
    VESTIGE_TRY(check::tensor({kOp, name}, view, {DType::kF32}, {b, h}));
    VESTIGE_TRY(check::dense({kOp, name}, view));
  }
  VESTIGE_TRY(check::tensor({kOp, "ids"}, p.ids, {DType::kI32}, {b, -1}));
  VESTIGE_TRY(check::dense({kOp, "ids"}, p.ids));
  VESTIGE_TRY(check::tensor({kOp, "n_ids"}, p.n_ids, {DType::kI32}, {b}));
  VESTIGE_TRY(check::tensor({kOp, "n_fired"}, p.n_fired, {DType::kI32}, {b}));
  VESTIGE_TRY(check::tensor({kOp, "n_stage"}, p.n_stage, {DType::kI64}, {b, 2}));
  for (const CodeSet& set : p.sets) VESTIGE_TRY(check::code_set(kOp, set, p.q.dim(2), h));
  return {};
}

}  // namespace vestige
