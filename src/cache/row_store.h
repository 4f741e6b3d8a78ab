#pragma once

// Rows of one sequence and layer in blocks of equal size: closed ones, immutable, then the open tail. A block
// is a content array and a branch array; a closed one may be a view of a loaded file instead of own memory.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "vestige/device.h"
#include "vestige/layout.h"
#include "vestige/policy.h"
#include "vestige/status.h"

namespace vestige {

/// Room for n more entries, doubling as push_back does, so that the next n cannot throw.
template <class T>
void make_room(std::vector<T>* entries, size_t n) {
  const size_t want = entries->size() + n;
  if (want > entries->capacity()) entries->reserve(std::max(want, 2 * entries->capacity()));
}

class RowStore {
 public:
  RowStore(const RowLayout& layout, int32_t block_rows) : layout_(layout), block_rows_(block_rows) {}

  int64_t n_closed() const { return n_closed_; }
  int64_t n_tail() const { return n_tail_; }
  int64_t n_rows() const { return n_closed_ + n_tail_; }
  bool tail_full() const { return n_tail_ == block_rows_; }
  /// Rows before this are gone: 0, or all that were closed at drop_closed().
  int64_t n_dropped() const { return n_dropped_; }

  /// Views of the n free rows after the tail's last; n in [1, rows left in the block].
  Status reserve(int64_t n, TensorView* content, TensorView* branch);
  /// @param n in [0, rows reserved]
  Status commit(int64_t n);
  /// The full tail becomes a closed block where it lies.
  void close_tail();

  /// Forgets every closed block, and frees those that it owns.
  void drop_closed();

  /// The first n_rows rows; n_rows in [0, n_rows()]. Once rows are dropped: none, with null tables.
  RowPages pages(int64_t n_rows) const;
  RowPages tail_pages() const;
  /// The tail's rows, [n_tail, d].
  ConstTensorView tail_content() const;
  ConstTensorView tail_branch() const;  ///< empty if the layout has no branch

  int64_t size_bytes() const { return static_cast<int64_t>(content_.size()) * block_rows_ * layout_.row_bytes(); }

  Status save(const std::string& prefix, TensorSink& sink) const;
  /// Into an empty store. Closed rows become views of the source, the tail is copied. @param dropped no closed row is
  /// there
  Status load(const std::string& prefix, const TensorSource& source, int64_t n_closed, int64_t n_tail, bool dropped);
  /// Into an empty store: all rows of `from`. A block whose rows lie side by side among the first n_closed of them
  /// becomes a view, other blocks and the tail are copied.
  Status share(const RowPages& from, int64_t n_closed);

 private:
  Status add_block();
  /// Of the blocks there are, from the given one on.
  RowPages page_table(size_t first, int64_t n_rows) const;
  void copy_to_tail(const RowPages& from, int64_t first, int64_t n);
  TensorView tail_view(std::byte* data, int64_t begin, int64_t n, int32_t width) const;
  Status load_tail(const std::string& name, const TensorSource& source, int32_t width, std::byte* to) const;

  RowLayout layout_;
  int64_t block_rows_;
  int64_t n_closed_ = 0, n_tail_ = 0, n_reserved_ = 0, n_dropped_ = 0;
  std::vector<const void*> content_, branch_;  // one entry a block that is there, the page tables of RowPages
  std::vector<Buffer> owned_;                  // content and branch of a block in turn
  std::byte* open_content_ = nullptr;          // of the block the tail is in; null = none yet
  std::byte* open_branch_ = nullptr;
};

}  // namespace vestige
