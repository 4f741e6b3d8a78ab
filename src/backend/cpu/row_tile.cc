#include "backend/cpu/row_tile.h"

#include <algorithm>
#include <cstring>

#include "backend/ops/row_access.h"

namespace vestige::cpu {

void widen_numbers(const void* src, DType dtype, int64_t n, float* dst) {
  if (dtype == DType::kF32) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  const uint16_t* bits = static_cast<const uint16_t*>(src);
  for (int64_t i = 0; i < n; ++i) dst[i] = bf16_to_f32(bits[i]);
}

void widen_content(const RowPages& pages, int64_t begin, int64_t end, const TileSlot& slot) {
  const int64_t d = pages.layout.d_content;
  for (int64_t i = 0; i < slot.n; ++i) {
    float* dst = slot.data + i * slot.stride;
    if (begin + i < end) {
      widen_numbers(content_row(pages, begin + i), pages.layout.dtype, d, dst);
    } else {
      std::fill_n(dst, d, 0.0f);
    }
  }
}

void widen_branch(const RowPages& pages, int64_t begin, int64_t end, const TileSlot& slot) {
  const int64_t d = pages.layout.d_branch;
  if (d == 0) return;
  for (int64_t i = 0; i < slot.n; ++i) {
    float* dst = slot.data + i * slot.stride;
    if (begin + i < end) {
      widen_numbers(branch_row(pages, begin + i), pages.layout.dtype, d, dst);
    } else {
      std::fill_n(dst, d, 0.0f);
    }
  }
}

}  // namespace vestige::cpu
