#include "cache/row_store.h"

#include <cstring>
#include <utility>

namespace vestige {

namespace {

// Row ids are int32 in every op and file.
constexpr int64_t kMaxRows = INT32_MAX;
const void* const kNoPage = nullptr;

}  // namespace

Status RowStore::add_block() {
  const size_t row = dtype_bytes(layout_.dtype) * static_cast<size_t>(block_rows_);
  VESTIGE_ASSIGN(Buffer content, Buffer::create(row * static_cast<size_t>(layout_.d_content)));
  VESTIGE_ASSIGN(Buffer branch, Buffer::create(row * static_cast<size_t>(layout_.d_branch)));
  // Room first: whatever throws, no table points at memory that nobody owns.
  make_room(&content_, 1);
  make_room(&branch_, 1);
  make_room(&owned_, 2);
  open_content_ = content.data();
  open_branch_ = branch.data();
  owned_.push_back(std::move(content));
  owned_.push_back(std::move(branch));
  content_.push_back(open_content_);
  branch_.push_back(open_branch_);
  return {};
}

TensorView RowStore::tail_view(std::byte* data, int64_t begin, int64_t n, int32_t width) const {
  if (width == 0) return {};
  return TensorView(data, layout_.dtype, {block_rows_, width}).slice(begin, n);
}

Status RowStore::reserve(int64_t n, TensorView* content, TensorView* branch) {
  const int64_t room = block_rows_ - n_tail_;
  if (n < 1 || n > room) {
    return invalid_argument("reserve: n = %lld, want 1 to %lld (rows until the block closes)",
                            static_cast<long long>(n), static_cast<long long>(room));
  }
  if (n_rows() + n > kMaxRows)
    return unsupported("more than %lld rows in one sequence", static_cast<long long>(kMaxRows));
  if (open_content_ == nullptr) VESTIGE_TRY(add_block());
  *content = tail_view(open_content_, n_tail_, n, layout_.d_content);
  *branch = tail_view(open_branch_, n_tail_, n, layout_.d_branch);
  n_reserved_ = n;
  return {};
}

Status RowStore::commit(int64_t n) {
  if (n < 0 || n > n_reserved_) {
    return invalid_argument("commit: n = %lld, want 0 to %lld (rows reserved)", static_cast<long long>(n),
                            static_cast<long long>(n_reserved_));
  }
  n_tail_ += n;
  n_reserved_ = 0;
  return {};
}

void RowStore::close_tail() {
  n_closed_ += n_tail_;
  n_tail_ = 0;
  open_content_ = open_branch_ = nullptr;
}

void RowStore::drop_closed() {
  const size_t n_open = open_content_ == nullptr ? 0 : 1;
  const auto keep_last = [](auto* entries, size_t n) {
    entries->erase(entries->begin(), entries->end() - static_cast<std::ptrdiff_t>(n));
  };
  keep_last(&content_, n_open);
  keep_last(&branch_, n_open);
  keep_last(&owned_, 2 * n_open);
  n_dropped_ = n_closed_;
}

RowPages RowStore::page_table(size_t first, int64_t n_rows) const {
  RowPages p;
  p.content = content_.empty() ? &kNoPage : content_.data() + first;
  if (layout_.d_branch > 0) p.branch = branch_.empty() ? &kNoPage : branch_.data() + first;
  p.content_stride = layout_.d_content;
  p.branch_stride = layout_.d_branch;
  p.page_rows = block_rows_;
  p.n_rows = n_rows;
  p.layout = layout_;
  return p;
}

RowPages RowStore::pages(int64_t n_rows) const {
  if (n_dropped_ == 0) return page_table(0, n_rows);
  RowPages none = page_table(0, 0);
  none.content = none.branch = nullptr;
  return none;
}

RowPages RowStore::tail_pages() const {
  return page_table(open_content_ == nullptr ? 0 : content_.size() - 1, n_tail_);
}

ConstTensorView RowStore::tail_content() const { return tail_view(open_content_, 0, n_tail_, layout_.d_content); }
ConstTensorView RowStore::tail_branch() const { return tail_view(open_branch_, 0, n_tail_, layout_.d_branch); }

Status RowStore::save(const std::string& prefix, TensorSink& sink) const {
  const auto put_closed = [&](const char* name, const std::vector<const void*>& blocks, int32_t width) -> Status {
    if (n_closed_ == n_dropped_ || width == 0) return {};
    std::vector<ConstTensorView> parts;
    for (int64_t i = 0; i < n_closed_ / block_rows_; ++i) {
      parts.push_back(ConstTensorView(blocks[static_cast<size_t>(i)], layout_.dtype, {block_rows_, width}));
    }
    return sink.put_rows(prefix + name, parts);
  };
  VESTIGE_TRY(put_closed("content", content_, layout_.d_content));
  VESTIGE_TRY(put_closed("branch", branch_, layout_.d_branch));
  if (n_tail_ == 0) return {};
  VESTIGE_TRY(sink.put(prefix + "tail_content", tail_content()));
  if (layout_.d_branch == 0) return {};
  return sink.put(prefix + "tail_branch", tail_branch());
}

void RowStore::copy_to_tail(const RowPages& from, int64_t first, int64_t n) {
  const size_t element = dtype_bytes(layout_.dtype);
  const auto copy = [&](const void* const* pages, int64_t row, int64_t count, int32_t width, std::byte* to) {
    if (width == 0) return;
    const size_t row_bytes = element * static_cast<size_t>(width);
    const auto* page = static_cast<const std::byte*>(pages[row / from.page_rows]);
    std::memcpy(to + static_cast<size_t>(row - first) * row_bytes,
                page + static_cast<size_t>(row % from.page_rows) * row_bytes, static_cast<size_t>(count) * row_bytes);
  };
  for (int64_t row = first; row < first + n;) {
    const int64_t count = std::min(first + n - row, from.page_rows - row % from.page_rows);
    copy(from.content, row, count, layout_.d_content, open_content_);
    copy(from.branch, row, count, layout_.d_branch, open_branch_);
    row += count;
  }
  n_tail_ = n;
}

Status RowStore::share(const RowPages& from, int64_t n_closed) {
  const auto place = [&](const void* const* pages, int64_t row, int32_t width) -> const void* {
    if (width == 0) return nullptr;
    const auto at = static_cast<size_t>(row % from.page_rows * width) * dtype_bytes(layout_.dtype);
    return static_cast<const std::byte*>(pages[row / from.page_rows]) + at;
  };
  for (int64_t row = 0; row < from.n_rows; row += block_rows_) {
    const int64_t n = std::min(block_rows_, from.n_rows - row), last = row + n - 1;
    if (n == block_rows_ && last < n_closed && row / from.page_rows == last / from.page_rows) {
      make_room(&content_, 1);
      make_room(&branch_, 1);
      content_.push_back(place(from.content, row, layout_.d_content));
      branch_.push_back(place(from.branch, row, layout_.d_branch));
      n_closed_ += n;
      continue;
    }
    VESTIGE_TRY(add_block());
    copy_to_tail(from, row, n);
    if (tail_full()) close_tail();
  }
  return {};
}

Status RowStore::load_tail(const std::string& name, const TensorSource& source, int32_t width, std::byte* to) const {
  if (width == 0) return {};
  VESTIGE_ASSIGN(const ConstTensorView view, source.get(name, layout_.dtype, {n_tail_, width}));
  std::memcpy(to, view.data, static_cast<size_t>(n_tail_ * width) * dtype_bytes(layout_.dtype));
  return {};
}

Status RowStore::load(const std::string& prefix, const TensorSource& source, int64_t n_closed, int64_t n_tail,
                      bool dropped) {
  const auto get_closed = [&](const char* name, int32_t width, std::vector<const void*>* blocks) -> Status {
    if (width > 0) {
      VESTIGE_ASSIGN(const ConstTensorView view, source.get(prefix + name, layout_.dtype, {n_closed, width}));
      for (int64_t row = 0; row < n_closed; row += block_rows_) {
        blocks->push_back(view.slice(row, block_rows_).data);
      }
    }
    blocks->resize(static_cast<size_t>(n_closed / block_rows_), nullptr);
    return {};
  };
  if (n_closed > 0 && !dropped) {
    VESTIGE_TRY(get_closed("content", layout_.d_content, &content_));
    VESTIGE_TRY(get_closed("branch", layout_.d_branch, &branch_));
  }
  n_closed_ = n_closed;
  n_dropped_ = dropped ? n_closed : 0;
  n_tail_ = n_tail;
  if (n_tail == 0) return {};
  VESTIGE_TRY(add_block());
  VESTIGE_TRY(load_tail(prefix + "tail_content", source, layout_.d_content, open_content_));
  return load_tail(prefix + "tail_branch", source, layout_.d_branch, open_branch_);
}

}  // namespace vestige
