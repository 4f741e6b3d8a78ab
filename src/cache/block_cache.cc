#include "cache/block_cache.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
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
  index_ = policy_->create_index(layout_, rotation_);
  const size_t heads = static_cast<size_t>(kMaxParts * h_q_) * sizeof(float);
  VESTIGE_ASSIGN(scratch_.part, Buffer::create(heads * static_cast<size_t>(layout_.d_content)));
  VESTIGE_ASSIGN(scratch_.lse, Buffer::create(heads));
  VESTIGE_ASSIGN(scratch_.max, Buffer::create(heads));
  if (index_ == nullptr) return {};
  const auto h = static_cast<size_t>(h_q_);
  VESTIGE_ASSIGN(scratch_.attended, Buffer::create(h * static_cast<size_t>(layout_.d_content) * sizeof(float)));
  VESTIGE_ASSIGN(scratch_.attended_lse, Buffer::create(h * sizeof(float)));
  scratch_.omitted.resize(h);
  scratch_.final_lse.resize(h);
  scratch_.error.resize(3 * h);
  scratch_.bound.resize(h);
  VESTIGE_ASSIGN(scratch_.ids, Buffer::create(static_cast<size_t>(index_->max_recall()) * sizeof(int32_t)));
  return {};
}

Status BlockCache::commit_rows(int64_t n, Stream& stream) {
  VESTIGE_TRY(rows_.commit(n));
  return rows_.tail_full() ? close_block(stream) : Status();
}

// Everything that can fail comes first: after an error the block is still the open tail, and commit(0) tries again.
Status BlockCache::close_block(Stream& stream) {
  if (rows_dropped()) return close_dropped_block(stream);
  const int64_t first = rows_.n_closed();
  const int64_t n = first + block_rows();
  VESTIGE_ASSIGN(Buffer scores, Buffer::create(static_cast<size_t>(n) * sizeof(float)));
  if (first > 0) std::memcpy(scores.data(), scores_.data(), static_cast<size_t>(first) * sizeof(float));
  const TensorView all(scores.data(), DType::kF32, {n});
  VESTIGE_TRY(
      policy_->score_block(rows_.tail_content(), rows_.tail_branch(), first, all.slice(first, block_rows()), stream));
  const RowPages closed = rows_.pages(n);
  VESTIGE_ASSIGN(KeptRows kept, KeptRows::select(closed, all, keep_count(n), stream));
  if (index_ != nullptr) VESTIGE_TRY(index_->extend(closed, n, stream));
  scores_ = std::move(scores);
  kept_ = std::move(kept);
  rows_.close_tail();
  return {};
}

Status BlockCache::append_whole(const ConstTensorView& rows, Stream& stream) {
  if (rows.dtype != DType::kF32 || rows.rank != 2 || rows.dim(1) != layout_.d_row() || rows.stride[1] != 1) {
    return invalid_argument("append: rows are %s, want [n, %d] F32", describe(rows).c_str(), layout_.d_row());
  }
  ConstTensorView content = rows, branch = rows;
  content.shape[1] = layout_.d_content;
  branch.shape[1] = layout_.d_branch;
  branch.data = rows.as<float>() + layout_.d_content;
  return append_parts(content, layout_.d_branch > 0 ? branch : ConstTensorView(), stream);
}

Status BlockCache::append_parts(const ConstTensorView& content, const ConstTensorView& branch, Stream& stream) {
  const auto bad = [](const ConstTensorView& part, int64_t n, int64_t width) {
    return part.dtype != DType::kF32 || part.rank != 2 || part.dim(0) != n || part.dim(1) != width ||
           part.stride[1] != 1;
  };
  const int64_t n_rows = content.dim(0);
  if (bad(content, n_rows, layout_.d_content) || (layout_.d_branch > 0 && bad(branch, n_rows, layout_.d_branch))) {
    return invalid_argument("append: content is %s and branch %s, want [n, %d] and [n, %d] F32",
                            describe(content).c_str(), describe(branch).c_str(), layout_.d_content, layout_.d_branch);
  }
  const auto element = static_cast<int64_t>(dtype_bytes(layout_.dtype));
  if (rows_.tail_full()) VESTIGE_TRY(close_block(stream));
  for (int64_t done = 0; done < n_rows;) {
    const int64_t n = std::min(n_rows - done, rows_until_close());
    TensorView to_content, to_branch;
    VESTIGE_TRY(rows_.reserve(n, &to_content, &to_branch));
    for (int64_t i = 0; i < n; ++i) {
      store_row(content.as<float>() + (done + i) * content.stride[0], layout_.d_content, layout_.dtype,
                to_content.as<std::byte>() + i * element * layout_.d_content);
      if (layout_.d_branch == 0) continue;
      store_row(branch.as<float>() + (done + i) * branch.stride[0], layout_.d_branch, layout_.dtype,
                to_branch.as<std::byte>() + i * element * layout_.d_branch);
    }
    VESTIGE_TRY(commit_rows(n, stream));
    done += n;
  }
  return {};
}

Status BlockCache::score_queries(const ConstTensorView& queries, int64_t first_position, Stream& stream) {
  if (scorer_ == nullptr) scorer_ = policy_->create_scorer(layout_, h_q_);
  if (scorer_ == nullptr) return {};
  const Status there = check_rows_there("observe");
  if (!there.ok()) {
    scorer_ = nullptr;
    return there;
  }
  const int64_t n = queries.dim(0);
  VESTIGE_TRY(check_shape("observe: queries", queries, {n, h_q_, layout_.d_row()}));
  if (n < 1 || first_position < 0) {
    return invalid_argument("observe: %lld queries at %lld, want at least 1 at 0 or later", static_cast<long long>(n),
                            static_cast<long long>(first_position));
  }
  return scorer_->add(queries, first_position, pages(), scale_, stream);
}

Result<RecallFit> BlockCache::fit_params(const char* call, const ConstTensorView& queries) const {
  VESTIGE_TRY(check_rows_there(call));
  const int64_t n = queries.dim(0);
  VESTIGE_TRY(check_shape((std::string(call) + ": queries").c_str(), queries, {n, h_q_, layout_.d_row()}));
  if (n < 1 || n > rows_.n_rows()) {
    return invalid_argument("%s: %lld queries, want 1 to %lld (rows in the cache)", call, static_cast<long long>(n),
                            static_cast<long long>(rows_.n_rows()));
  }
  return RecallFit{.queries = queries,
                   .first_position = rows_.n_rows() - n,
                   .rows = pages(),
                   .n_closed = rows_.n_closed(),
                   .kept = kept_.mask(),
                   .scale = scale_};
}

Status BlockCache::prepare_index(const ConstTensorView& queries, const ConstTensorView& value_gram, LayerFit* layer,
                                 Stream& stream) {
  if (index_ == nullptr || layer == nullptr) return {};
  VESTIGE_ASSIGN(RecallFit fit, fit_params("prepare_fit", queries));
  fit.value_gram = value_gram;
  fit.layer = layer;
  return index_->prepare_fit(fit, stream);
}

Status BlockCache::fit_index(const ConstTensorView& queries, const ConstTensorView& value_gram, LayerFit* layer,
                             Stream& stream) {
  if (index_ == nullptr) return {};
  VESTIGE_ASSIGN(RecallFit fit, fit_params("fit_recall", queries));
  fit.value_gram = value_gram;
  fit.layer = layer;
  VESTIGE_TRY(index_->fit(fit, stream));
  return drop_replaced();
}

Status BlockCache::attend_part(const ConstTensorView& q, int64_t part, const RowSet& set, Stream& stream) {
  const TensorView out = part_out(part);
  return ops::attend_rows(
      {.q = q, .rows = std::span(&set, 1), .out = out, .lse = part_lse(part), .max = part_max(part), .scale = scale_},
      stream);
}

RecallStep BlockCache::recall_step(const ConstTensorView& q) {
  const int64_t capacity = index_->max_recall();
  std::fill(scratch_.omitted.begin(), scratch_.omitted.end(), std::numeric_limits<float>::quiet_NaN());
  std::fill_n(scratch_.n_stage, 2, 0);
  scratch_.n_gated = 0;
  return {.q = q,
          .kept_max = part_max(0),
          .kept_lse = part_lse(0),
          .attended_lse = TensorView(scratch_.attended_lse.data(), DType::kF32, {1, h_q_}),
          .attended = TensorView(scratch_.attended.data(), DType::kF32, {1, h_q_, layout_.d_content}),
          .rows = closed_pages(),
          .n_closed = rows_.n_closed(),
          .kept = kept_.mask(),
          .kept_ids = kept_.id_span(),
          .kept_rows = kept_.pages(closed_pages()),
          .scale = scale_,
          .ids = TensorView(scratch_.ids.data(), DType::kI32, {1, capacity}),
          .n_ids = TensorView(&scratch_.n_ids, DType::kI32, {1}),
          .n_fired = TensorView(&scratch_.n_fired, DType::kI32, {1}),
          .omitted = TensorView(scratch_.omitted.data(), DType::kF32, {1, h_q_}),
          .n_stage = TensorView(scratch_.n_stage, DType::kI64, {1, 2}),
          .n_gated = TensorView(&scratch_.n_gated, DType::kI32, {1})};
}

Status BlockCache::attend_archive(const ConstTensorView& q, int64_t* n_parts, StepRecord* step, Stream& stream) {
  VESTIGE_TRY(ops::merge_parts({.part = TensorView(scratch_.part.data(), DType::kF32, {2, 1, h_q_, layout_.d_content}),
                                .lse = TensorView(scratch_.lse.data(), DType::kF32, {2, 1, h_q_}),
                                .out = TensorView(scratch_.attended.data(), DType::kF32, {1, h_q_, layout_.d_content}),
                                .lse_out = TensorView(scratch_.attended_lse.data(), DType::kF32, {1, h_q_})},
                               stream));
  const RecallStep recall = recall_step(q);
  VESTIGE_TRY(index_->recall(recall, stream));
  VESTIGE_TRY(stream.synchronize());
  if (rows_dropped() && (scratch_.n_ids != 0 || scratch_.n_fired != 0)) {
    return internal_error("policy %s recalls rows that were dropped", policy_->config().name.c_str());
  }
  const bool overflow = scratch_.n_fired > index_->max_recall();
  const RowSet set = {.pages = closed_pages(),
                      .ids = overflow ? kept_.archive_ids() : recall.ids.as<int32_t>(),
                      .n_rows = overflow ? kept_.n_archive_ids() : &scratch_.n_ids};
  recalled_ = {set.ids, static_cast<size_t>(*set.n_rows)};
  step->n_recalled = *set.n_rows;
  step->n_overflowed = overflow ? 1 : 0;
  std::copy_n(scratch_.n_stage, 2, step->n_scanned);
  step->n_gated = scratch_.n_gated;
  const bool reads_codes = scratch_.n_gated < h_q_ || index_->attends_codes();
  step->archive_bytes = (reads_codes ? index_->scan_bytes(rows_.n_closed()) : 0) +
                        scratch_.n_stage[1] * index_->second_bytes() + step->n_recalled * layout_.row_bytes();
  if (step->n_recalled > 0) VESTIGE_TRY(attend_part(q, (*n_parts)++, set, stream));
  scratch_.n_coded = 0;
  if (overflow) std::fill(scratch_.omitted.begin(), scratch_.omitted.end(), 0.0f);
  if (overflow || !index_->attends_codes()) return {};
  std::fill(scratch_.bound.begin(), scratch_.bound.end(), std::numeric_limits<float>::quiet_NaN());
  VESTIGE_TRY(index_->attend_codes(recall,
                                   {.out = part_out(*n_parts),
                                    .lse = part_lse(*n_parts),
                                    .error = TensorView(scratch_.error.data(), DType::kF32, {1, h_q_, 3}),
                                    .n_coded = TensorView(&scratch_.n_coded, DType::kI64, {1}),
                                    .bound = TensorView(scratch_.bound.data(), DType::kF32, {1, h_q_})},
                                   stream));
  ++*n_parts;
  step->n_coded = scratch_.n_coded;
  return stream.synchronize();
}

void BlockCache::certify(const TensorView& out, int64_t n_parts, StepRecord* step) const {
  const bool coded = step->n_coded > 0;
  const float* attended = reinterpret_cast<const float*>(scratch_.attended_lse.data());
  double omitted_sum = 0, error_sum = 0;
  for (int32_t i = 0; i < h_q_; ++i) {
    const auto head = static_cast<size_t>(i);
    const double total = double(scratch_.final_lse[head]);
    if (!coded) {
      const double left = double(scratch_.omitted[head]) * std::exp(double(attended[i]) - total);
      // Not a number: no bound is known.
      const double share = left == 0 ? 0.0 : std::isfinite(left) ? left / (1 + left) : 1.0;
      omitted_sum += share;
      step->omitted_max = std::max(step->omitted_max, share);
      continue;
    }
    const auto norm_of = [&](const float* x) {
      double square = 0;
      for (int32_t c = 0; c < layout_.d_content; ++c) square += double(x[c]) * double(x[c]);
      return std::sqrt(square);
    };
    const double most = double(index_->max_content_norm());
    const double norm = norm_of(out.as<float>() + i * layout_.d_content);
    const double exact_part = norm_of(reinterpret_cast<const float*>(scratch_.attended.data()) + i * layout_.d_content);
    const float* lse = part_lse(n_parts - 1).as<float>();  // the coded part is the last
    const double share = std::min(1.0, std::exp(double(lse[i]) - total));
    const float* e = scratch_.error.data() + 3 * i;
    const double over = share * (2 * double(e[0]) + double(e[1]) * (most + norm));
    const auto whole = double(scratch_.bound[head]);
    const double bound = std::isnan(whole) ? over / (1 - share + share * double(e[2])) : whole;
    // Whatever the codes say, the exact output lies between that of the kept and tail rows and the archive's contents.
    const double cap = std::max(most, exact_part) + norm;
    double relative = most > 0 ? std::min(std::isfinite(bound) ? bound : INFINITY, cap) / most : 0.0;
    step->n_capped += bound < cap ? 0 : 1;
    if (!std::isfinite(relative)) relative = INFINITY;  // contents without a norm
    error_sum += relative;
    step->error_max = std::max(step->error_max, relative);
  }
  step->omitted_sum = omitted_sum / h_q_;
  step->error_sum = error_sum / h_q_;
}

Status BlockCache::attend_merged(const ConstTensorView& q, const TensorView& out, const TensorView& lse,
                                 int64_t* n_parts, StepRecord* step, Stream& stream) {
  VESTIGE_TRY(attend_part(q, 0, {.pages = kept_.pages(closed_pages())}, stream));
  VESTIGE_TRY(attend_part(q, 1, {.pages = rows_.tail_pages()}, stream));
  *n_parts = 2;
  if (recalls()) VESTIGE_TRY(attend_archive(q, n_parts, step, stream));
  const TensorView final_lse = recalls() ? TensorView(scratch_.final_lse.data(), DType::kF32, {1, h_q_}) : lse;
  VESTIGE_TRY(
      ops::merge_parts({.part = TensorView(scratch_.part.data(), DType::kF32, {*n_parts, 1, h_q_, layout_.d_content}),
                        .lse = TensorView(scratch_.lse.data(), DType::kF32, {*n_parts, 1, h_q_}),
                        .out = out,
                        .lse_out = final_lse},
                       stream));
  if (recalls() && !lse.empty()) std::copy_n(scratch_.final_lse.data(), h_q_, lse.as<float>());
  return {};
}

Status BlockCache::attend_parts(const ConstTensorView& q, const TensorView& out, const TensorView& lse,
                                StepRecord* record, Stream& stream) {
  const auto start = std::chrono::steady_clock::now();
  VESTIGE_TRY(check_shape("attend: q", q, {1, h_q_, layout_.d_row()}));
  VESTIGE_TRY(check_shape("attend: out", out, {1, h_q_, layout_.d_content}));
  if (!lse.empty()) VESTIGE_TRY(check_shape("attend: lse", lse, {1, h_q_}));
  StepRecord step;
  step.n_steps = 1;
  step.n_kept = kept_.n_kept();
  step.n_tail = rows_.n_tail();
  step.n_archived = kept_.n_archived();
  recalled_ = {};
  int64_t n_parts = 1;
  if (rows_.n_closed() > 0) {
    VESTIGE_TRY(attend_merged(q, out, lse, &n_parts, &step, stream));
  } else {  // the tail is all there is
    const RowSet tail = {.pages = rows_.tail_pages()};
    const TensorView tail_lse = lse.empty() ? part_lse(0) : lse;
    VESTIGE_TRY(ops::attend_rows(
        {.q = q, .rows = std::span(&tail, 1), .out = out, .lse = tail_lse, .max = {}, .scale = scale_}, stream));
  }
  if (record == nullptr) return drop_replaced();
  VESTIGE_TRY(stream.synchronize());
  if (recalls()) {
    certify(out, n_parts, &step);
  } else if (kept_.n_archived() > 0) {
    step.omitted_max = step.omitted_sum = 1;  // no index: nobody knows
  }
  step.read_bytes = step.archive_bytes + (step.n_kept + step.n_tail) * layout_.row_bytes();
  step.full_bytes = rows_.n_rows() * layout_.row_bytes();
  step.attend_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  record->add(step);
  return drop_replaced();
}

LayerCache::Bytes BlockCache::bytes() const {
  return {.rows = rows_.size_bytes(),
          .kept_arena = kept_.size_bytes(),
          .index = index_ == nullptr ? 0 : index_->size_bytes(),
          .scores = static_cast<int64_t>(scores_.size_bytes()),
          .codes = index_ == nullptr || !index_->attends_codes() ? 0 : index_->size_bytes()};
}

}  // namespace vestige
