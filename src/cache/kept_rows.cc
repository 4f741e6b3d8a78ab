#include "cache/kept_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/ops/row_access.h"
#include "base/check.h"

namespace vestige {

namespace {

/// Places of the rows to keep among `score`, ascending.
Result<Buffer> choose(const ConstTensorView& score, const KeepCount& count, int32_t* n_ids, Stream& stream) {
  const int64_t n = score.dim(0), n_sinks = std::min<int64_t>(count.n_sinks, n), n_keep = count.n;
  if (n_keep < 0 || n_keep > n) {
    return internal_error("n_keep = %lld, want 0 to %lld", static_cast<long long>(n_keep), static_cast<long long>(n));
  }
  const int64_t capacity = std::min(n, n_keep + n_sinks);
  VESTIGE_ASSIGN(Buffer room, Buffer::create(static_cast<size_t>(capacity) * sizeof(int32_t)));
  VESTIGE_TRY(ops::select_rows({.score = score,
                                .n_keep = n_keep,
                                .n_sinks = n_sinks,
                                .ids = TensorView(room.data(), DType::kI32, {capacity}),
                                .n_ids = TensorView(n_ids, DType::kI32, {1})},
                               stream));
  VESTIGE_ASSIGN(Buffer ids, Buffer::create(static_cast<size_t>(*n_ids) * sizeof(int32_t)));
  std::memcpy(ids.data(), room.data(), ids.size_bytes());
  return ids;
}

}  // namespace

Result<KeptRows> KeptRows::select(const RowPages& closed, const ConstTensorView& score, const KeepCount& count,
                                  Stream& stream) {
  const int64_t n = closed.n_rows;
  int32_t n_ids = 0;
  VESTIGE_ASSIGN(Buffer ids, choose(score, count, &n_ids, stream));
  KeptRows kept;
  VESTIGE_TRY(kept.set_ids(std::move(ids), n_ids, n));
  VESTIGE_TRY(kept.gather(closed));
  return kept;
}

// The first rows of the sequence are sinks, so those are the first of the rows kept so far.
Result<KeptRows> KeptRows::select_left(const RowPages& block, const ConstTensorView& score, const KeepCount& count,
                                       Buffer* kept_score, Stream& stream) const {
  KeptRows kept;
  int32_t n_ids = 0;
  kept.n_closed_ = n_closed_ + block.n_rows;
  VESTIGE_ASSIGN(kept.ids_, choose(score, count, &n_ids, stream));
  kept.n_kept_ = n_ids;
  VESTIGE_TRY(kept.allocate_arena(block.layout));
  VESTIGE_ASSIGN(*kept_score, Buffer::create(static_cast<size_t>(n_ids) * sizeof(float)));
  const RowPages held = pages(block);
  auto* id = reinterpret_cast<int32_t*>(kept.ids_.data());
  std::byte* to = kept.arena_.data();
  for (int64_t i = 0; i < n_ids; ++i) {
    const int64_t place = id[i];
    const bool is_held = place < n_kept_;
    reinterpret_cast<float*>(kept_score->data())[i] = score.as<float>()[place];
    to = kept.copy_row(is_held ? held : block, is_held ? place : place - n_kept_, to);
    id[i] = is_held ? ids()[place] : static_cast<int32_t>(n_closed_ + place - n_kept_);
  }
  return kept;
}

void KeptRows::forget_archive() {
  n_archive_ids_ = 0;
  mask_ = {};
  archive_ids_ = {};
}

Status KeptRows::set_ids(Buffer ids, int64_t n_kept, int64_t n_closed) {
  n_kept_ = n_kept;
  n_closed_ = n_closed;
  n_archive_ids_ = static_cast<int32_t>(n_closed - n_kept);
  ids_ = std::move(ids);
  VESTIGE_ASSIGN(mask_, Buffer::create(static_cast<size_t>(n_closed)));
  VESTIGE_ASSIGN(archive_ids_, Buffer::create(static_cast<size_t>(n_closed - n_kept) * sizeof(int32_t)));
  auto* mask = reinterpret_cast<uint8_t*>(mask_.data());
  for (int64_t i = 0; i < n_kept; ++i) mask[this->ids()[i]] = 1;
  auto* archived = reinterpret_cast<int32_t*>(archive_ids_.data());
  for (int64_t u = 0; u < n_closed; ++u) {
    if (mask[u] == 0) *archived++ = static_cast<int32_t>(u);
  }
  VESTIGE_CHECK(archived == archive_ids() + (n_closed - n_kept));
  return {};
}

Status KeptRows::allocate_arena(const RowLayout& layout) {
  VESTIGE_ASSIGN(arena_, Buffer::create(static_cast<size_t>(n_kept_ * layout.row_bytes())));
  arena_content_ = arena_.data();
  arena_branch_ = arena_.data() + static_cast<size_t>(layout.d_content) * dtype_bytes(layout.dtype);
  return {};
}

Status KeptRows::gather(const RowPages& closed) {
  if (n_archived() == 0) return {};
  VESTIGE_TRY(allocate_arena(closed.layout));
  std::byte* to = arena_.data();
  for (int64_t i = 0; i < n_kept_; ++i) to = copy_row(closed, ids()[i], to);
  return {};
}

std::byte* KeptRows::copy_row(const RowPages& from, int64_t row, std::byte* to) const {
  const size_t element = dtype_bytes(from.layout.dtype);
  const size_t content_bytes = element * static_cast<size_t>(from.layout.d_content);
  const size_t branch_bytes = element * static_cast<size_t>(from.layout.d_branch);
  std::memcpy(to, content_row(from, row), content_bytes);
  if (branch_bytes > 0) std::memcpy(to + content_bytes, branch_row(from, row), branch_bytes);
  return to + content_bytes + branch_bytes;
}

RowPages KeptRows::pages(const RowPages& closed) const {
  if (n_archived() == 0) return closed;
  RowPages p = closed;
  p.content = &arena_content_;
  p.branch = closed.layout.d_branch > 0 ? &arena_branch_ : nullptr;
  p.content_stride = p.branch_stride = closed.layout.d_row();
  p.page_rows = std::max<int64_t>(n_kept_, 1);
  p.n_rows = n_kept_;
  return p;
}

int64_t KeptRows::size_bytes() const {
  return static_cast<int64_t>(ids_.size_bytes() + mask_.size_bytes() + archive_ids_.size_bytes() + arena_.size_bytes());
}

Status KeptRows::save(const std::string& prefix, const RowLayout& layout, TensorSink& sink) const {
  if (n_kept_ == 0) return {};
  VESTIGE_TRY(sink.put(prefix + "kept_ids", ConstTensorView(ids(), DType::kI32, {n_kept_})));
  if (n_archived() == 0) return {};
  return sink.put(prefix + "kept_rows", ConstTensorView(arena_.data(), layout.dtype, {n_kept_, layout.d_row()}));
}

Result<KeptRows> KeptRows::load(const std::string& prefix, const TensorSource& source, const RowLayout& layout,
                                int64_t n_closed, int64_t n_kept, bool dropped) {
  KeptRows kept;
  VESTIGE_ASSIGN(Buffer ids, Buffer::create(static_cast<size_t>(n_kept) * sizeof(int32_t)));
  if (n_kept > 0) {
    VESTIGE_ASSIGN(const ConstTensorView view, source.get(prefix + "kept_ids", DType::kI32, {n_kept}));
    std::memcpy(ids.data(), view.data, ids.size_bytes());
  }
  int64_t previous = -1;
  for (int64_t i = 0; i < n_kept; ++i) {
    const int64_t id = reinterpret_cast<const int32_t*>(ids.data())[i];
    if (id <= previous || id >= n_closed) {
      return data_loss("%skept_ids[%lld] = %lld, want ascending ids in [%lld, %lld)", prefix.c_str(),
                       static_cast<long long>(i), static_cast<long long>(id), static_cast<long long>(previous + 1),
                       static_cast<long long>(n_closed));
    }
    previous = id;
  }
  if (dropped) {  // nothing is taken that the file does not hold
    kept.ids_ = std::move(ids);
    kept.n_kept_ = n_kept;
    kept.n_closed_ = n_closed;
  } else {
    VESTIGE_TRY(kept.set_ids(std::move(ids), n_kept, n_closed));
  }
  if (kept.n_archived() == 0 || n_kept == 0) return kept;
  VESTIGE_TRY(kept.allocate_arena(layout));
  VESTIGE_ASSIGN(const ConstTensorView rows, source.get(prefix + "kept_rows", layout.dtype, {n_kept, layout.d_row()}));
  std::memcpy(kept.arena_.data(), rows.data, kept.arena_.size_bytes());
  return kept;
}

}  // namespace vestige
