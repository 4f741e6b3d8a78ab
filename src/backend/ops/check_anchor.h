#pragma once

// Checks shared by the ops of the anchor codec.

#include "backend/ops/check_rows.h"

namespace vestige::check {

inline Status rotated_width(const char* op, const char* field, int64_t d) {
  if (d >= 8 && d <= 4096 && (d & (d - 1)) == 0) return {};
  return invalid_argument("%s: %s is %" PRId64 " wide, want a power of two from 8 to 4096", op, field, d);
}

/// Codes and scales of the rows of x, each [n, d].
inline Status rotated_codes(const char* op, const ConstTensorView& x, int32_t bits, const ConstTensorView& codes,
                            const ConstTensorView& scale) {
  VESTIGE_TRY(rotated_width(op, "x", x.dim(1)));
  if (bits < 2 || bits > 4) return invalid_argument("%s: bits = %d, want 2, 3 or 4", op, bits);
  VESTIGE_TRY(tensor({op, "codes"}, codes, {DType::kU8}, {x.dim(0), x.dim(1) * bits / 8}));
  VESTIGE_TRY(dense({op, "codes"}, codes));
  VESTIGE_TRY(tensor({op, "scale"}, scale, {DType::kF16, DType::kF32}, {x.dim(0)}));
  return dense({op, "scale"}, scale);
}

}  // namespace vestige::check
