#include "backend/ops/check_anchor.h"
#include "vestige/ops/anchor.h"

namespace vestige {

Status decode_rotated_check(const DecodeRotatedParams& p) {
  constexpr const char* kOp = "decode_rotated";
  VESTIGE_TRY(check::tensor({kOp, "x"}, p.x, {DType::kF32}, {-1, -1}));
  if (p.x.dim(0) > 1 && p.x.stride[0] < p.x.dim(1)) {
    return invalid_argument("%s: x has a row stride of %" PRId64 ", want at least %" PRId64, kOp, p.x.stride[0],
                            p.x.dim(1));
  }
  return check::rotated_codes(kOp, p.x, p.bits, p.codes, p.scale);
}

}  // namespace vestige
