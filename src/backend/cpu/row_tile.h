#pragma once

// Rows widened to float32 in dense tiles, for matrix products.

#include "vestige/layout.h"
#include "vestige/tensor.h"

namespace vestige::cpu {

/// n numbers of bf16 or f32 to float32.
void widen_numbers(const void* src, DType dtype, int64_t n, float* dst);

/// A dense destination of `n` rows with `stride` floats a row.
struct TileSlot {
  float* data = nullptr;
  int64_t stride = 0;
  int64_t n = 0;
};

/// Content of rows [begin, begin + slot.n) into the slot; rows at or past `end` become zero.
void widen_content(const RowPages& pages, int64_t begin, int64_t end, const TileSlot& slot);
/// Likewise the branch.
void widen_branch(const RowPages& pages, int64_t begin, int64_t end, const TileSlot& slot);

}  // namespace vestige::cpu
