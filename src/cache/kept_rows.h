#pragma once

// Which closed rows are kept, and exact copies of them in one contiguous arena.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "vestige/device.h"
#include "vestige/layout.h"
#include "vestige/policy.h"
#include "vestige/status.h"

namespace vestige {

/// How many of the closed rows are kept: the first n_sinks of the sequence, and n of highest score.
struct KeepCount {
  int64_t n = 0, n_sinks = 0;
};

/// The membership over n_closed rows; immutable once made. If every row is kept there is no arena: the
/// closed blocks themselves are attended, so that a full cache holds each row once.
class KeptRows {
 public:
  KeptRows() = default;

  /// Picks rows by score and copies them.
  /// @param score [closed.n_rows] f32
  static Result<KeptRows> select(const RowPages& closed, const ConstTensorView& score, const KeepCount& count,
                                 Stream& stream);
  /// The same after one more block, once archived rows are dropped: those kept so far and the block's rows compete.
  /// @param score [n_kept() + block.n_rows] f32, in this order
  /// @param count of all closed rows, dropped ones included
  /// @param kept_score [n_kept()] f32 of the result, out
  Result<KeptRows> select_left(const RowPages& block, const ConstTensorView& score, const KeepCount& count,
                               Buffer* kept_score, Stream& stream) const;
  /// Archived rows are dropped: no mask and no ids of theirs any more.
  void forget_archive();

  int64_t n_kept() const { return n_kept_; }
  int64_t n_archived() const { return n_closed_ - n_kept_; }
  const int32_t* ids() const { return reinterpret_cast<const int32_t*>(ids_.data()); }
  std::span<const int32_t> id_span() const { return {ids(), static_cast<size_t>(n_kept_)}; }
  /// [n_closed], 1 = kept; null if archived rows are dropped
  const uint8_t* mask() const { return reinterpret_cast<const uint8_t*>(mask_.data()); }
  /// Ids of the rows that are not kept, ascending, and a pointer to how many; none if they are dropped.
  const int32_t* archive_ids() const { return reinterpret_cast<const int32_t*>(archive_ids_.data()); }
  const int32_t* n_archive_ids() const { return &n_archive_ids_; }
  /// Where to attend the kept rows. @param closed the same rows as at selection
  RowPages pages(const RowPages& closed) const;
  int64_t size_bytes() const;

  Status save(const std::string& prefix, const RowLayout& layout, TensorSink& sink) const;
  /// The arena comes from the source too, so that no archived row is touched.
  static Result<KeptRows> load(const std::string& prefix, const TensorSource& source, const RowLayout& layout,
                               int64_t n_closed, int64_t n_kept, bool dropped);

 private:
  /// Sets mask and archive ids from the first n_kept of `ids`, which are ascending and in range.
  Status set_ids(Buffer ids, int64_t n_kept, int64_t n_closed);
  Status gather(const RowPages& closed);
  std::byte* copy_row(const RowPages& from, int64_t row, std::byte* to) const;
  Status allocate_arena(const RowLayout& layout);

  int64_t n_kept_ = 0, n_closed_ = 0;
  int32_t n_archive_ids_ = 0;
  Buffer ids_, mask_, archive_ids_, arena_;
  const void* arena_content_ = nullptr;  // one-entry page tables
  const void* arena_branch_ = nullptr;
};

}  // namespace vestige
