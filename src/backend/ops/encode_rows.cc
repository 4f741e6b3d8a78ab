#include "backend/ops/check_codes.h"
#include "backend/ops/check_rows.h"

namespace vestige {

Status encode_rows_check(const EncodeRowsParams& p) {
  constexpr const char* kOp = "encode_rows";
  VESTIGE_TRY(check::tensor({kOp, "content"}, p.content, {DType::kBF16, DType::kF32}, {-1, -1}));
  const int64_t n = p.content.dim(0), d_content = p.content.dim(1);
  int64_t d = d_content;
  if (!p.branch.empty()) {
    VESTIGE_TRY(check::tensor({kOp, "branch"}, p.branch, {p.content.dtype}, {n, -1}));
    d += p.branch.dim(1);
  }
  if (n < 1 || d_content < 1) return invalid_argument("%s: content is %s", kOp, describe(p.content).c_str());
  VESTIGE_TRY(check::transform(kOp, p.transform, d, 0));
  VESTIGE_TRY(check::stages(kOp, p.stages, d));
  const int64_t n_padded = CodeStage::padded_rows(n);
  for (size_t s = 0; s < p.stages.size(); ++s) {
    const CodeStage& stage = p.stages[s];
    VESTIGE_TRY(check::tensor({kOp, "codes"}, p.codes[s], {DType::kU8},
                              {n_padded, stage.row_bytes(p.transform.metric.dim(0))}));
    VESTIGE_TRY(check::dense({kOp, "codes"}, p.codes[s]));
    for (int32_t e = 0; e < stage.n_entries(); ++e) {
      const int32_t coord = stage.coord.as<int32_t>()[e];
      if (coord < -1 || coord >= d) {
        return invalid_argument("%s: an entry codes coordinate %d, want -1 to %" PRId64, kOp, coord, d - 1);
      }
    }
    for (int64_t j = 0; j < d; ++j) {
      const int32_t bits = stage.bits.as<int32_t>()[j];
      const float step = stage.step.as<float>()[j];
      if (bits < 0 || bits > CodeStage::kMaxBits || (bits > 0 && !(step > 0))) {
        return invalid_argument("%s: coordinate %" PRId64 " has %d bits of step %g, want 0 to %d bits, a step above 0",
                                kOp, j, bits, static_cast<double>(step), CodeStage::kMaxBits);
      }
    }
  }
  if (!p.value_norm.empty()) {
    VESTIGE_TRY(check::tensor({kOp, "value_norm"}, p.value_norm, {DType::kU8}, {n}));
    if (!(p.value_base > 0 && p.value_base < 1e30f)) {
      return invalid_argument("%s: value_base = %g, want above 0", kOp, static_cast<double>(p.value_base));
    }
  }
  return check::tensor({kOp, "max_norm"}, p.max_norm, {DType::kF32}, {2});
}

}  // namespace vestige
