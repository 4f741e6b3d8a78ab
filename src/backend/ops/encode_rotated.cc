#include "backend/ops/check_anchor.h"
#include "vestige/ops/anchor.h"

namespace vestige {

Status encode_rotated_check(const EncodeRotatedParams& p) {
  constexpr const char* kOp = "encode_rotated";
  VESTIGE_TRY(check::tensor({kOp, "x"}, p.x, {DType::kF32, DType::kBF16}, {-1, -1}));
  return check::rotated_codes(kOp, p.x, p.bits, p.codes, p.scale);
}

}  // namespace vestige
