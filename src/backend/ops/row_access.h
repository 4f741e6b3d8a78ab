#pragma once

// Where one row of a RowPages lies, and its numbers as float.

#include <cstddef>
#include <cstdint>

#include "base/load_number.h"
#include "vestige/layout.h"
#include "vestige/tensor.h"

namespace vestige {

inline const std::byte* row_at(const void* const* pages, int64_t page_rows, int64_t stride_bytes, int64_t u) {
  return static_cast<const std::byte*>(pages[u / page_rows]) + (u % page_rows) * stride_bytes;
}

inline const std::byte* content_row(const RowPages& p, int64_t u) {
  return row_at(p.content, p.page_rows, p.content_stride * static_cast<int64_t>(dtype_bytes(p.layout.dtype)), u);
}

/// Only where d_branch > 0.
inline const std::byte* branch_row(const RowPages& p, int64_t u) {
  return row_at(p.branch, p.page_rows, p.branch_stride * static_cast<int64_t>(dtype_bytes(p.layout.dtype)), u);
}

/// One row's numbers, content then branch, into [d_row].
template <class T>
void load_row(const RowPages& p, int64_t u, T* out) {
  const std::byte* c = content_row(p, u);
  for (int32_t i = 0; i < p.layout.d_content; ++i) out[i] = static_cast<T>(load_number(c, p.layout.dtype, i));
  if (p.layout.d_branch == 0) return;
  const std::byte* r = branch_row(p, u);
  for (int32_t i = 0; i < p.layout.d_branch; ++i) {
    out[p.layout.d_content + i] = static_cast<T>(load_number(r, p.layout.dtype, i));
  }
}

}  // namespace vestige
