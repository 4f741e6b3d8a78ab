#pragma once

#include <cstdint>

namespace vestige::cpu {

/// out[c] = silu(gate[c]) * up[c] for one row; out may be gate or up.
void silu_mul_row(const float* gate, const float* up, int64_t n, float* out);

}  // namespace vestige::cpu
