#include "cache/policies/quantised_index.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cache/kept_window.h"
#include "cache/left_rows.h"
#include "vestige/ops.h"

namespace vestige {

namespace {

/// >= the length of the longest value. @param rows [n, 2 d]
/// @return InvalidArgument if a number is not finite
Result<float> longest_value(const float* rows, int64_t n, int64_t d, int64_t first_row) {
  double most = 0;
  for (int64_t t = 0; t < n; ++t) {
    double square = 0;
    for (int64_t j = 0; j < 2 * d; ++j) {
      const auto x = double(rows[t * 2 * d + j]);
      if (!std::isfinite(x)) {
        return invalid_argument("row %lld holds a number that is not finite, which codes cannot stand for",
                                static_cast<long long>(first_row + t));
      }
      if (j < d) square += x * x;
    }
    most = std::max(most, square);
  }
  return static_cast<float>(std::sqrt(most) * (1 + 1e-6));
}

}  // namespace

int64_t CodedSpan::n_recent(int64_t n_closed) const {
  const int64_t over = (n_sinks + window) % group_rows;
  return std::clamp<int64_t>(window + (over == 0 ? 0 : group_rows - over), 0, std::max<int64_t>(0, n_closed - n_sinks));
}

int64_t CodedSpan::n_coded(int64_t n_closed) const {
  return std::max<int64_t>(0, n_closed - n_sinks - n_recent(n_closed));
}

int64_t QuantisedIndex::tile_rows() const {
  constexpr int64_t kAbout = 256;  // floats of a tile stay in the second-level cache
  return std::max<int64_t>(1, kAbout / span_.group_rows) * span_.group_rows;
}

ConstTensorView QuantisedIndex::codes_of(int64_t first, int64_t n) const {
  return {codes_.data() + bytes_of(first), DType::kU8, {n / span_.group_rows, quantiser_->group_bytes()}};
}

// Built aside and moved in at the end: after an error the index is as it was.
Status QuantisedIndex::code_until(const ClosedBlock& rows, int64_t n_closed, Stream& stream) {
  const int64_t begin = span_.n_coded(n_closed_), end = span_.n_coded(n_closed), width = 2 * d();
  std::vector<uint8_t> codes(static_cast<size_t>(bytes_of(end)));  // just as large as needed: it is counted
  std::copy(codes_.begin(), codes_.end(), codes.begin());
  std::vector<float> tile(static_cast<size_t>(std::min(tile_rows(), end - begin) * width));
  float norm = max_norm_;
  for (int64_t first = begin; first < end; first += tile_rows()) {
    const int64_t n = std::min(tile_rows(), end - first), row = span_.n_sinks + first;
    for (int64_t t = 0; t < n; ++t) VESTIGE_TRY(load_left_row(rows, row + t, tile.data() + t * width));
    VESTIGE_ASSIGN(const float longest, longest_value(tile.data(), n, d(), row));
    norm = std::max(norm, longest);
    VESTIGE_TRY(quantiser_->encode(
        {tile.data(), DType::kF32, {n, width}},
        {codes.data() + bytes_of(first), DType::kU8, {n / span_.group_rows, quantiser_->group_bytes()}}, stream));
    VESTIGE_TRY(stream.synchronize());  // the tile is written anew
  }
  codes_ = std::move(codes);
  max_norm_ = norm;
  n_closed_ = n_closed;
  return {};
}

Status QuantisedIndex::extend(const RowPages& rows, int64_t n_closed, Stream& stream) {
  if (n_closed == n_closed_) return {};
  return code_until(whole_rows(rows), n_closed, stream);
}

Status QuantisedIndex::extend_dropped(const ClosedBlock& block, Stream& stream) {
  if (block.first_row != n_closed_) {
    return internal_error("a block from row %lld on, want %lld", static_cast<long long>(block.first_row),
                          static_cast<long long>(n_closed_));
  }
  return code_until(block, n_closed_ + block.rows.n_rows, stream);
}

Status QuantisedIndex::recall(const RecallStep& step, Stream&) {
  if (n_closed_ != step.n_closed) {
    return internal_error("recall over %lld closed rows, the index has %lld", static_cast<long long>(step.n_closed),
                          static_cast<long long>(n_closed_));
  }
  const int64_t end = span_.n_sinks + span_.n_coded(n_closed_);
  if (n_checked_ != n_closed_ && !is_kept_window(step.kept_ids, span_.n_sinks, end, n_closed_)) {
    return internal_error("a closed row is kept and coded, or neither");
  }
  n_checked_ = n_closed_;
  *step.n_ids.as<int32_t>() = *step.n_fired.as<int32_t>() = 0;
  step.n_stage.as<int64_t>()[0] = span_.n_coded(n_closed_);
  return {};
}

Status QuantisedIndex::attend_codes(const RecallStep& step, const CodedPart& part, Stream& stream) {
  const int64_t h = step.q.dim(1), width = 2 * d(), n_rows = span_.n_coded(n_closed_);
  const int64_t n_parts = (n_rows + tile_rows() - 1) / tile_rows();
  tile_.resize(static_cast<size_t>(tile_rows() * width));
  part_.resize(static_cast<size_t>(n_parts * h * d()));
  lse_.resize(static_cast<size_t>(n_parts * h));
  const void* const content = tile_.data();
  const void* const branch = tile_.data() + d();
  RowSet set = {.pages = {.content = &content,
                          .branch = &branch,
                          .content_stride = width,
                          .branch_stride = width,
                          .page_rows = tile_rows(),
                          .layout = layout_}};
  set.pages.layout.dtype = DType::kF32;
  for (int64_t i = 0; i < n_parts; ++i) {
    const int64_t first = i * tile_rows(), n = std::min(tile_rows(), n_rows - first);
    VESTIGE_TRY(quantiser_->decode(codes_of(first, n), {tile_.data(), DType::kF32, {n, width}}, stream));
    set.pages.n_rows = n;
    VESTIGE_TRY(ops::attend_rows({.q = step.q,
                                  .rows = std::span(&set, 1),
                                  .out = {part_.data() + i * h * d(), DType::kF32, {1, h, d()}},
                                  .lse = {lse_.data() + i * h, DType::kF32, {1, h}},
                                  .max = {},
                                  .scale = step.scale},
                                 stream));
    VESTIGE_TRY(stream.synchronize());  // the tile is written anew
  }
  // No bound is known.
  for (int64_t i = 0; i < 3 * h; ++i) {
    part.error.as<float>()[i] = i % 3 == 2 ? 0.0f : std::numeric_limits<float>::infinity();
  }
  *part.n_coded.as<int64_t>() = n_rows;
  return ops::merge_parts({.part = {part_.data(), DType::kF32, {n_parts, 1, h, d()}},
                           .lse = {lse_.data(), DType::kF32, {n_parts, 1, h}},
                           .out = part.out,
                           .lse_out = part.lse},
                          stream);
}

Status QuantisedIndex::save(const std::string& prefix, TensorSink& sink) const {
  const int64_t n = span_.n_coded(n_closed_);
  if (n == 0) return {};
  VESTIGE_TRY(sink.put(prefix + "quantised_norm", ConstTensorView(&max_norm_, DType::kF32, {1})));
  return sink.put(prefix + "quantised_codes", codes_of(0, n));
}

Status QuantisedIndex::load(const std::string& prefix, const TensorSource& source, int64_t n_closed) {
  const int64_t n = span_.n_coded(n_closed);
  std::vector<uint8_t> codes;
  float norm = 0;
  if (n > 0) {
    VESTIGE_ASSIGN(const ConstTensorView stored, source.get(prefix + "quantised_norm", DType::kF32, {1}));
    std::memcpy(&norm, stored.data, sizeof norm);
    if (!(norm >= 0)) return data_loss("%squantised_norm: want 0 or more", prefix.c_str());
    VESTIGE_ASSIGN(const ConstTensorView view, source.get(prefix + "quantised_codes", DType::kU8,
                                                          {n / span_.group_rows, quantiser_->group_bytes()}));
    if (!quantiser_->check(view)) {
      return data_loss("%squantised_codes: a scale is no finite number from 0 on", prefix.c_str());
    }
    codes.assign(view.as<uint8_t>(), view.as<uint8_t>() + bytes_of(n));
  }
  codes_ = std::move(codes);
  max_norm_ = norm;
  n_closed_ = n_closed;
  n_checked_ = -1;
  return {};
}

}  // namespace vestige
