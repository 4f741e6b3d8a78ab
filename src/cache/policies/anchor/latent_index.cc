#include "cache/policies/anchor/latent_index.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cache/kept_window.h"
#include "cache/left_rows.h"
#include "cache/policies/anchor/draw.h"
#include "cache/policies/anchor/latent_utility.h"

namespace vestige::anchor {

namespace {

constexpr int64_t kObserved = 32;   // last tokens whose queries rank rows, as in the two-sided form
constexpr int64_t kTileRows = 256;  // decoded and attended at a time

/// Rows [first, end) side by side.
Result<std::vector<float>> gather(const ClosedBlock& rows, int64_t first, int64_t end, int64_t d) {
  std::vector<float> out(static_cast<size_t>((end - first) * d));
  for (int64_t u = first; u < end; ++u) {
    float* row = out.data() + (u - first) * d;
    VESTIGE_TRY(load_left_row(rows, u, row));
    if (std::all_of(row, row + d, [](float x) { return std::isfinite(x); })) continue;
    return invalid_argument("row %lld holds a number that is not finite, which codes cannot stand for",
                            static_cast<long long>(u));
  }
  return out;
}

}  // namespace

int64_t LatentIndex::budget(int64_t n) const {
  return static_cast<int64_t>(std::floor(static_cast<double>(n * layout_.row_bytes()) / settings_.ratio));
}

Result<LatentIndex::Coded> LatentIndex::code(const ClosedBlock& rows, int64_t first, int64_t end, int64_t seen,
                                             int64_t n_closed, const LatentBasis* basis, const RecallFit* fit,
                                             Stream& stream) const {
  const int64_t d = layout_.d_row(), n = end - first;
  VESTIGE_ASSIGN(const std::vector<float> x, gather(rows, first, fit == nullptr ? end : fit->rows.n_rows, d));
  const ConstTensorView coded(x.data(), DType::kF32, {n, d});
  LatentTokens tokens = {.rows = {x.data(), DType::kF32, {static_cast<int64_t>(x.size()) / d, d}},
                         .left = {},
                         .d_content = layout_.d_content,
                         .seed = mix(settings_.seed) ^ static_cast<uint64_t>(first)};
  ConstTensorView queries;
  if (fit != nullptr) {
    const int64_t m = fit->queries.dim(0), h = fit->queries.dim(1), from = std::max<int64_t>(0, m - kObserved);
    queries = {fit->queries.data, DType::kF32, {m * h, d}};
    tokens.queries = {fit->queries.as<float>() + from * h * d, DType::kF32, {(m - from) * h, d}};
    for (int64_t i = from * h; i < m * h; ++i) {
      tokens.q_positions.push_back(static_cast<int32_t>(fit->first_position + i / h - first));
    }
    tokens.value_gram = fit->value_gram;
    tokens.scale = fit->scale;
  }
  FittedBasis fitted;
  if (basis == nullptr) {
    VESTIGE_ASSIGN(fitted, fit_latent_basis(layout_, coded, queries, tokens.value_gram, budget(n)));
  } else {
    fitted = with_least_squares(*basis);
  }
  const LatentForm& form = fitted.basis.form;
  std::vector<float> left(static_cast<size_t>(n * d));
  const TensorView left_view(left.data(), DType::kF32, {n, d});
  Coded out;
  VESTIGE_ASSIGN(out.segment, code_coarse(fitted, coded, left_view, stream));
  out.segment.first = first;
  tokens.left = left_view;
  VESTIGE_ASSIGN(const std::vector<float> utility, latent_utility(settings_.utility, tokens, stream));
  const std::vector<uint8_t> no_anchor(utility.size());
  const SideUtility side = {utility, no_anchor};
  auto masks = pick_residuals({&side, 1}, affordable_residuals(form, n, budget(n), basis == nullptr));
  VESTIGE_TRY(add_latent_residuals(form, left_view, std::move(masks[0]), &out.segment, stream));
  double most = 0;
  std::vector<double> row(static_cast<size_t>(d));
  for (int64_t u = seen; u < n_closed; ++u) {
    VESTIGE_TRY(load_left_row(rows, u, row.data()));
    double square = 0;
    for (int64_t j = 0; j < layout_.d_content; ++j) square += row[static_cast<size_t>(j)] * row[static_cast<size_t>(j)];
    most = std::max(most, square);
  }
  out.norm = static_cast<float>(std::sqrt(most) * (1 + 1e-6));
  out.basis = std::move(fitted.basis);
  return out;
}

Status LatentIndex::fit(const RecallFit& fit, Stream& stream) {
  LatentIndex fitted(layout_, settings_);
  if (fit.n_closed > 0) {
    const int64_t end = fit.n_closed - settings_.window;
    VESTIGE_ASSIGN(Coded coded,
                   fitted.code(whole_rows(fit.rows), settings_.n_sinks, end, 0, fit.n_closed, nullptr, &fit, stream));
    fitted.basis_ = std::move(coded.basis);
    fitted.segments_.push_back(std::move(coded.segment));
    fitted.max_norm_ = coded.norm;
    fitted.n_coded_ = end;
  }
  fitted.n_closed_ = fit.n_closed;
  fitted.ready_ = true;
  *this = std::move(fitted);
  return {};
}

Status LatentIndex::add_block(const ClosedBlock& rows, int64_t n_closed, Stream& stream) {
  const int64_t end = n_closed - settings_.window;
  VESTIGE_ASSIGN(Coded coded, code(rows, n_coded_, end, n_closed_, n_closed, segments_.empty() ? nullptr : &basis_,
                                   nullptr, stream));
  segments_.reserve(segments_.size() + 1);  // no more: it is counted
  if (segments_.empty()) basis_ = std::move(coded.basis);
  segments_.push_back(std::move(coded.segment));
  max_norm_ = std::max(max_norm_, coded.norm);
  n_closed_ = n_closed;
  n_coded_ = end;
  return {};
}

// Block by block, so that it does not matter how many of them one call brings.
Status LatentIndex::extend(const RowPages& rows, int64_t n_closed, Stream& stream) {
  while (ready_ && n_closed_ < n_closed)
    VESTIGE_TRY(add_block(whole_rows(rows), n_closed_ + settings_.block_rows, stream));
  return {};
}

Status LatentIndex::extend_dropped(const ClosedBlock& block, Stream& stream) {
  if (block.first_row != n_closed_) {
    return internal_error("a block from row %lld on, want %lld", static_cast<long long>(block.first_row),
                          static_cast<long long>(n_closed_));
  }
  return add_block(block, n_closed_ + block.rows.n_rows, stream);
}

Status LatentIndex::recall(const RecallStep& step, Stream& stream) {
  if (!ready_) {
    ready_ = true;
    VESTIGE_TRY(extend(step.rows, step.n_closed, stream));
  }
  if (n_closed_ != step.n_closed) {
    return internal_error("recall over %lld closed rows, the index has %lld", static_cast<long long>(step.n_closed),
                          static_cast<long long>(n_closed_));
  }
  if (n_checked_ != n_closed_ && !is_kept_window(step.kept_ids, settings_.n_sinks, n_coded_, n_closed_)) {
    return internal_error("a closed row is kept and coded, or neither");
  }
  n_checked_ = n_closed_;
  *step.n_ids.as<int32_t>() = *step.n_fired.as<int32_t>() = 0;
  step.n_stage.as<int64_t>()[0] = n_coded_ - settings_.n_sinks;
  return {};
}

Status LatentIndex::attend_codes(const RecallStep& step, const CodedPart& part, Stream& stream) {
  const int64_t h = step.q.dim(1), d = layout_.d_row(), d_content = layout_.d_content;
  tile_.resize(static_cast<size_t>(kTileRows * d));
  part_.clear();
  lse_.clear();
  const void* const content = tile_.data();
  const void* const branch = layout_.d_branch == 0 ? nullptr : tile_.data() + d_content;
  RowSet set = {.pages = {.content = &content,
                          .branch = branch == nullptr ? nullptr : &branch,
                          .content_stride = d,
                          .branch_stride = d,
                          .page_rows = kTileRows,
                          .layout = layout_}};
  set.pages.layout.dtype = DType::kF32;
  int64_t n_parts = 0;
  for (const LatentSegment& segment : segments_) {
    int64_t n_before = 0;  // residuals
    for (int64_t first = 0; first < segment.n; first += kTileRows) {
      const int64_t n = std::min(kTileRows, segment.n - first);
      VESTIGE_TRY(decode_latent(basis_, segment, first, n, n_before, {tile_.data(), DType::kF32, {n, d}}, stream));
      n_before += residuals_in(segment, first, n);
      set.pages.n_rows = n;
      part_.resize(static_cast<size_t>((n_parts + 1) * h * d_content));
      lse_.resize(static_cast<size_t>((n_parts + 1) * h));
      VESTIGE_TRY(ops::attend_rows({.q = step.q,
                                    .rows = std::span(&set, 1),
                                    .out = {part_.data() + n_parts * h * d_content, DType::kF32, {1, h, d_content}},
                                    .lse = {lse_.data() + n_parts * h, DType::kF32, {1, h}},
                                    .max = {},
                                    .scale = step.scale},
                                   stream));
      VESTIGE_TRY(stream.synchronize());  // the tile is written anew
      ++n_parts;
    }
  }
  // No bound is known.
  for (int64_t i = 0; i < 3 * h; ++i) {
    part.error.as<float>()[i] = i % 3 == 2 ? 0.0f : std::numeric_limits<float>::infinity();
  }
  *part.n_coded.as<int64_t>() = n_coded_ - settings_.n_sinks;
  return ops::merge_parts({.part = {part_.data(), DType::kF32, {n_parts, 1, h, d_content}},
                           .lse = {lse_.data(), DType::kF32, {n_parts, 1, h}},
                           .out = part.out,
                           .lse_out = part.lse},
                          stream);
}

int64_t LatentIndex::size_bytes() const {
  int64_t total = basis_.n_bytes();
  for (const LatentSegment& segment : segments_) total += segment.n_bytes();
  return total;
}

}  // namespace vestige::anchor
