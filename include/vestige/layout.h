#pragma once

// How one token's memory lies in a cache, and how many such rows are found.

#include <cstdint>
#include <vector>

#include "vestige/tensor.h"

namespace vestige {

/// Widths of one cached row, [content ; branch]: `d_content` numbers that carry the value, `d_branch` numbers that only
/// steer the score. The content of an MLA row steers the score too. A row of one key-value head of grouped-query
/// attention is [value ; key]: there it does not, and score = scale * q_branch . branch.
/// Queries are d_row wide in both; where content is not scored, their content part is zero, and ops that are given the
/// layout neither read nor multiply it.
struct RowLayout {
  int32_t d_content = 512;     ///< > 0
  int32_t d_branch = 64;       ///< >= 0; 0 = no branch
  DType dtype = DType::kBF16;  ///< kBF16 (files, default) or kF32 (parity work)
  bool scored_content = true;  ///< false: [value ; key], and d_branch > 0

  int32_t d_row() const { return d_content + d_branch; }
  /// The numbers of a row that its score is made of: [scored_begin(), d_row()).
  int32_t scored_begin() const { return scored_content ? 0 : d_content; }
  int32_t d_scored() const { return d_row() - scored_begin(); }
  int64_t row_bytes() const { return static_cast<int64_t>(dtype_bytes(dtype)) * d_row(); }
  bool operator==(const RowLayout&) const = default;
};

/// How the keys of [value ; key] rows were turned by their positions (row numbers) before they were cached: by the op
/// `rotate`. Policies that code keys as they were before turn them back.
struct KeyRotation {
  std::vector<float> frequencies;  ///< [at most d_branch / 2] radians a position; empty: not turned, or nobody says
  bool interleaved = true;         ///< as RotateParams
};

/// Rows of one sequence and layer, in equal pages (the closed blocks, then the open tail). Row u lies
/// at index u % page_rows of page u / page_rows. The tables and the pages are on the stream's device
/// and outlive the queued work. A contiguous arena is a single page.
struct RowPages {
  const void* const* content = nullptr;  ///< [n_pages], each [page_rows, d_content]
  const void* const* branch = nullptr;   ///< [n_pages], each [page_rows, d_branch]; null if d_branch = 0
  int64_t content_stride = 0;            ///< elements from one row's content to the next row's
  int64_t branch_stride = 0;             ///< likewise for the branch
  int64_t page_rows = 0;                 ///< > 0
  int64_t n_rows = 0;                    ///< rows found in all pages, >= 0
  RowLayout layout;
};

}  // namespace vestige
