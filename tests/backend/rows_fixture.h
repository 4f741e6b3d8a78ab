#pragma once

// Random rows in pages, for the tests of the ops over rows. Numbers, streams and comparisons: dense_fixture.h.

#include "tests/backend/dense_fixture.h"

namespace vestige::test {

using dense_test::check_backends;
using dense_test::close;
using dense_test::Floats;
using dense_test::numbers;
using dense_test::ok;
using dense_test::refused;
using dense_test::same_bits;
using dense_test::stored;
using dense_test::stream;

struct RowsSpec {
  RowLayout layout;
  int64_t n_rows = 0;
  int64_t page_rows = 4096;
  bool interleaved = false;  ///< content and branch of a row side by side, as in the arena of kept rows
};

/// Owns the numbers of n_rows rows, laid out as asked. Equal numbers give equal rows in any layout.
class Rows {
 public:
  Rows(const Floats& values, const RowsSpec& spec) : spec_(spec) {
    const RowLayout& l = spec.layout;
    const size_t width = dtype_bytes(l.dtype);
    const std::vector<std::byte> bytes = stored(values, l.dtype);
    const int64_t n_pages = (spec.n_rows + spec.page_rows - 1) / spec.page_rows;
    const int64_t d_first = spec.interleaved ? l.d_row() : l.d_content;
    for (int64_t page = 0; page < n_pages; ++page) {
      first_.emplace_back(static_cast<size_t>(spec.page_rows * d_first) * width);
      second_.emplace_back(static_cast<size_t>(spec.interleaved ? 0 : spec.page_rows * l.d_branch) * width);
    }
    for (int64_t u = 0; u < spec.n_rows; ++u) {
      const size_t page = static_cast<size_t>(u / spec.page_rows);
      const std::byte* row = bytes.data() + static_cast<size_t>(u * l.d_row()) * width;
      const size_t content_bytes = static_cast<size_t>(l.d_content) * width;
      const size_t branch_bytes = static_cast<size_t>(l.d_branch) * width;
      std::byte* content = first_[page].data() + static_cast<size_t>(u % spec.page_rows * d_first) * width;
      std::byte* branch = spec.interleaved
                              ? content + content_bytes
                              : second_[page].data() + static_cast<size_t>(u % spec.page_rows) * branch_bytes;
      std::memcpy(content, row, content_bytes);
      if (branch_bytes > 0) std::memcpy(branch, row + content_bytes, branch_bytes);
    }
    for (size_t page = 0; page < first_.size(); ++page) {
      content_table_.push_back(first_[page].data());
      branch_table_.push_back(spec.interleaved ? first_[page].data() + static_cast<size_t>(l.d_content) * width
                                               : second_[page].data());
    }
  }

  RowPages pages() const {
    const RowLayout& l = spec_.layout;
    return {.content = content_table_.data(),
            .branch = l.d_branch > 0 ? branch_table_.data() : nullptr,
            .content_stride = spec_.interleaved ? l.d_row() : l.d_content,
            .branch_stride = spec_.interleaved ? l.d_row() : l.d_branch,
            .page_rows = spec_.page_rows,
            .n_rows = spec_.n_rows,
            .layout = l};
  }

 private:
  RowsSpec spec_;
  std::vector<std::vector<std::byte>> first_, second_;
  std::vector<const void*> content_table_, branch_table_;
};

}  // namespace vestige::test
