#include "cache/policies/anchor/latent_index.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cache/left_rows.h"
#include "cache/policies/anchor/draw.h"
#include "cache/policies/anchor/latent_utility.h"

namespace vestige::anchor {

namespace {

constexpr int64_t kObserved = 32;  // last tokens whose queries rank rows, as in the two-sided form

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
  VESTIGE_ASSIGN(out.norm, longest_content(rows, layout_, seen, n_closed));
  out.basis = std::move(fitted.basis);
  return out;
}

Status LatentIndex::fit(const RecallFit& fit, Stream& stream) {
  LatentIndex fitted(layout_, settings_);
  if (fit.n_closed > 0) {
    VESTIGE_ASSIGN(Coded coded, fitted.code(whole_rows(fit.rows), span().n_sinks, span().coded_end(fit.n_closed), 0,
                                            fit.n_closed, nullptr, &fit, stream));
    fitted.basis_ = std::move(coded.basis);
    fitted.segments_.push_back(std::move(coded.segment));
    fitted.max_norm_ = coded.norm;
  }
  fitted.n_closed_ = fit.n_closed;
  fitted.ready_ = true;
  *this = std::move(fitted);
  return {};
}

Status LatentIndex::code_until(const ClosedBlock& rows, int64_t n_closed, Stream& stream) {
  VESTIGE_ASSIGN(Coded coded, code(rows, span().coded_end(n_closed_), span().coded_end(n_closed), n_closed_, n_closed,
                                   segments_.empty() ? nullptr : &basis_, nullptr, stream));
  segments_.reserve(segments_.size() + 1);  // no more: it is counted
  if (segments_.empty()) basis_ = std::move(coded.basis);
  segments_.push_back(std::move(coded.segment));
  max_norm_ = std::max(max_norm_, coded.norm);
  n_closed_ = n_closed;
  return {};
}

Status LatentIndex::attend(const RecallStep& step, const CodedPart& part, Stream& stream) {
  tiles_.begin();
  for (const LatentSegment& segment : segments_) {
    int64_t n_before = 0;  // residuals
    for (int64_t first = 0; first < segment.n; first += kTileRows) {
      const int64_t n = std::min(kTileRows, segment.n - first);
      VESTIGE_TRY(decode_latent(basis_, segment, first, n, n_before, tiles_.tile(n), stream));
      n_before += residuals_in(segment, first, n);
      VESTIGE_TRY(tiles_.attend(step, n, stream));
    }
  }
  return tiles_.merge(part, stream);
}

int64_t LatentIndex::size_bytes() const {
  int64_t total = basis_.n_bytes();
  for (const LatentSegment& segment : segments_) total += segment.n_bytes();
  return total;
}

}  // namespace vestige::anchor
