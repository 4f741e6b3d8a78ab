#include "cache/block_cache.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/half.h"

namespace vestige {

namespace {

Status check_shape(const char* name, const ConstTensorView& view, std::initializer_list<int64_t> shape) {
  const ConstTensorView want(nullptr, DType::kF32, shape);
  if (view.data != nullptr && view.dtype == DType::kF32 && view.rank == want.rank && view.shape == want.shape &&
      view.contiguous()) {
    return {};
  }
  return invalid_argument("%s is %s, want contiguous %s", name, describe(view).c_str(), describe(want).c_str());
}

void store_row(const float* from, int64_t n, DType dtype, std::byte* to) {
  if (dtype == DType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  auto* half = reinterpret_cast<uint16_t*>(to);
  for (int64_t i = 0; i < n; ++i) half[i] = f32_to_bf16(from[i]);
}

}  // namespace

Status BlockCache::init() {
  index_ = policy_->create_index(layout_);
  const size_t heads = static_cast<size_t>(kMaxParts * h_q_) * sizeof(float);
  VESTIGE_ASSIGN(scratch_.part, Buffer::create(heads * static_cast<size_t>(layout_.d_content)));
  VESTIGE_ASSIGN(scratch_.lse, Buffer::create(heads));
  VESTIGE_ASSIGN(scratch_.max, Buffer::create(heads));
  if (index_ == nullptr) return {};
  VESTIGE_ASSIGN(scratch_.ids, Buffer::create(static_cast<size_t>(index_->max_recall()) * sizeof(int32_t)));
  return {};
}

Status BlockCache::commit_rows(int64_t n, Stream& stream) {
  VESTIGE_TRY(rows_.commit(n));
  return rows_.tail_full() ? close_block(stream) : Status();
}

// Everything that can fail comes first: after an error the block is still the open tail, and commit(0) tries again.
Status BlockCache::close_block(Stream& stream) {
  const int64_t first = rows_.n_closed();
  const int64_t n = first + block_rows();
  VESTIGE_ASSIGN(Buffer scores, Buffer::create(static_cast<size_t>(n) * sizeof(float)));
  if (first > 0) std::memcpy(scores.data(), scores_.data(), static_cast<size_t>(first) * sizeof(float));
  const TensorView all(scores.data(), DType::kF32, {n});
  VESTIGE_TRY(
      policy_->score_block(rows_.tail_content(), rows_.tail_branch(), first, all.slice(first, block_rows()), stream));
  const RowPages closed = rows_.pages(n);
  VESTIGE_ASSIGN(KeptRows kept, KeptRows::select(closed, all, *policy_, stream));
  if (index_ != nullptr) VESTIGE_TRY(index_->extend(closed, n, stream));
  scores_ = std::move(scores);
  kept_ = std::move(kept);
  rows_.close_tail();
  return {};
}

Status BlockCache::append_rows(const ConstTensorView& rows, Stream& stream) {
  if (rows.dtype != DType::kF32 || rows.rank != 2 || rows.dim(1) != layout_.d_row() || rows.stride[1] != 1) {
    return invalid_argument("append: rows are %s, want [n, %d] F32", describe(rows).c_str(), layout_.d_row());
  }
  const auto element = static_cast<int64_t>(dtype_bytes(layout_.dtype));
  if (rows_.tail_full()) VESTIGE_TRY(close_block(stream));
  for (int64_t done = 0; done < rows.dim(0);) {
    const int64_t n = std::min(rows.dim(0) - done, rows_until_close());
    TensorView content, branch;
    VESTIGE_TRY(rows_.reserve(n, &content, &branch));
    for (int64_t i = 0; i < n; ++i) {
      const float* from = rows.as<float>() + (done + i) * rows.stride[0];
      store_row(from, layout_.d_content, layout_.dtype, content.as<std::byte>() + i * element * layout_.d_content);
      if (layout_.d_branch == 0) continue;
      store_row(from + layout_.d_content, layout_.d_branch, layout_.dtype,
                branch.as<std::byte>() + i * element * layout_.d_branch);
    }
    VESTIGE_TRY(commit_rows(n, stream));
    done += n;
  }
  return {};
}

Status BlockCache::score_queries(const ConstTensorView& queries, int64_t first_position, Stream& stream) {
  if (scorer_ == nullptr) scorer_ = policy_->create_scorer(layout_, h_q_);
  if (scorer_ == nullptr) return {};
  const int64_t n = queries.dim(0);
  VESTIGE_TRY(check_shape("observe: queries", queries, {n, h_q_, layout_.d_row()}));
  if (n < 1 || first_position < 0) {
    return invalid_argument("observe: %lld queries at %lld, want at least 1 at 0 or later", static_cast<long long>(n),
                            static_cast<long long>(first_position));
  }
  return scorer_->add(queries, first_position, pages(), scale_, stream);
}

Status BlockCache::select_anew(Stream& stream) {
  if (scorer_ == nullptr || rows_.n_closed() == 0) return {};
  const int64_t n = rows_.n_closed();
  VESTIGE_ASSIGN(Buffer scores, Buffer::create(static_cast<size_t>(n) * sizeof(float)));
  const TensorView all(scores.data(), DType::kF32, {n});
  VESTIGE_TRY(scorer_->finish(closed_pages(), all, stream));
  VESTIGE_ASSIGN(KeptRows kept, KeptRows::select(closed_pages(), all, *policy_, stream));
  scores_ = std::move(scores);
  kept_ = std::move(kept);
  scorer_ = nullptr;
  return {};
}

Status BlockCache::fit_index(const ConstTensorView& queries, Stream& stream) {
  if (index_ == nullptr) return {};
  const int64_t n = queries.dim(0);
  VESTIGE_TRY(check_shape("fit_recall: queries", queries, {n, h_q_, layout_.d_row()}));
  if (n < 1 || n > rows_.n_rows()) {
    return invalid_argument("fit_recall: %lld queries, want 1 to %lld (rows in the cache)", static_cast<long long>(n),
                            static_cast<long long>(rows_.n_rows()));
  }
  return index_->fit({.queries = queries,
                      .first_position = rows_.n_rows() - n,
                      .rows = pages(),
                      .n_closed = rows_.n_closed(),
                      .kept = kept_.mask(),
                      .scale = scale_},
                     stream);
}

Status BlockCache::attend_part(const ConstTensorView& q, int64_t part, const RowSet& set, Stream& stream) {
  const TensorView parts(scratch_.part.data(), DType::kF32, {kMaxParts, h_q_, layout_.d_content});
  TensorView out = parts.slice(part, 1);
  return ops::attend_rows(
      {.q = q, .rows = std::span(&set, 1), .out = out, .lse = part_lse(part), .max = part_max(part), .scale = scale_},
      stream);
}

Status BlockCache::recall(const ConstTensorView& q, RowSet* set, bool* overflow, Stream& stream) {
  const int64_t capacity = index_->max_recall();
  VESTIGE_TRY(index_->recall({.q = q,
                              .kept_max = part_max(0),
                              .kept_lse = part_lse(0),
                              .rows = closed_pages(),
                              .n_closed = rows_.n_closed(),
                              .kept = kept_.mask(),
                              .scale = scale_,
                              .ids = TensorView(scratch_.ids.data(), DType::kI32, {1, capacity}),
                              .n_ids = TensorView(&scratch_.n_ids, DType::kI32, {1}),
                              .n_fired = TensorView(&scratch_.n_fired, DType::kI32, {1})},
                             stream));
  *overflow = scratch_.n_fired > capacity;
  set->pages = closed_pages();
  set->ids = *overflow ? kept_.archive_ids() : reinterpret_cast<const int32_t*>(scratch_.ids.data());
  set->n_rows = *overflow ? kept_.n_archive_ids() : &scratch_.n_ids;
  return {};
}

Status BlockCache::attend_parts(const ConstTensorView& q, const TensorView& out, const TensorView& lse,
                                StepRecord* record, Stream& stream) {
  const auto start = std::chrono::steady_clock::now();
  VESTIGE_TRY(check_shape("attend: q", q, {1, h_q_, layout_.d_row()}));
  VESTIGE_TRY(check_shape("attend: out", out, {1, h_q_, layout_.d_content}));
  if (!lse.empty()) VESTIGE_TRY(check_shape("attend: lse", lse, {1, h_q_}));
  VESTIGE_TRY(attend_part(q, 0, {.pages = kept_.pages(closed_pages())}, stream));
  VESTIGE_TRY(attend_part(q, 1, {.pages = rows_.tail_pages()}, stream));

  StepRecord step;
  step.n_steps = 1;
  step.n_kept = kept_.n_kept();
  step.n_tail = rows_.n_tail();
  step.n_archived = kept_.n_archived();
  int64_t n_parts = 2;
  if (index_ != nullptr && kept_.n_archived() > 0) {
    RowSet recalled;
    bool overflow = false;
    VESTIGE_TRY(recall(q, &recalled, &overflow, stream));
    step.n_recalled = *recalled.n_rows;
    step.n_overflowed = overflow ? 1 : 0;
    step.read_bytes = index_->scan_bytes(rows_.n_closed());
    if (step.n_recalled > 0) VESTIGE_TRY(attend_part(q, n_parts++, recalled, stream));
  }
  VESTIGE_TRY(
      ops::merge_parts({.part = TensorView(scratch_.part.data(), DType::kF32, {n_parts, 1, h_q_, layout_.d_content}),
                        .lse = TensorView(scratch_.lse.data(), DType::kF32, {n_parts, 1, h_q_}),
                        .out = out,
                        .lse_out = lse},
                       stream));
  if (record == nullptr) return {};
  VESTIGE_TRY(stream.synchronize());
  step.read_bytes += (step.n_kept + step.n_tail + step.n_recalled) * layout_.row_bytes();
  step.full_bytes = rows_.n_rows() * layout_.row_bytes();
  step.attend_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  record->add(step);
  return {};
}

LayerCache::Bytes BlockCache::bytes() const {
  return {.rows = rows_.size_bytes(),
          .kept_arena = kept_.size_bytes(),
          .index = index_ == nullptr ? 0 : index_->size_bytes(),
          .scores = static_cast<int64_t>(scores_.size_bytes())};
}

}  // namespace vestige
