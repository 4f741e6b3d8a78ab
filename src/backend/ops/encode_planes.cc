#include "backend/ops/check_planes.h"

namespace vestige {

Status encode_planes_check(const EncodePlanesParams& p) {
  constexpr const char* kOp = "encode_planes";
  VESTIGE_TRY(check::plane_rows(kOp, p.rows));
  const struct {
    const char* name;
    const ConstTensorView& view;
    int64_t least;
  } kInputs[] = {{"key", p.key, p.rows.key.basis.dim(0)}, {"value", p.value, p.rows.value.basis.dim(0)}};
  for (const auto& input : kInputs) {
    VESTIGE_TRY(check::tensor({kOp, input.name}, input.view, {DType::kF32}, {p.rows.n_rows, -1}));
    if (input.view.dim(1) < input.least) {
      return invalid_argument("%s: %s has %" PRId64 " coefficients, want at least %" PRId64, kOp, input.name,
                              input.view.dim(1), input.least);
    }
  }
  return check::tensor({kOp, "codes"}, p.codes, {DType::kU8}, {-1});
}

}  // namespace vestige
