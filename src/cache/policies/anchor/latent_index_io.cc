// The coded latent segments to a file and back: sizes before memory, then what decoding counts on.

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "cache/policies/anchor/latent_index.h"
#include "cache/policies/anchor/segment_io.h"
#include "cache/policies/load_array.h"

namespace vestige::anchor {

namespace {

enum Size : uint8_t { kFirst, kTokens, kRank, kBits, kResiduals, kSizes };

bool finite_halves(const std::vector<uint16_t>& bf16) {
  for (const uint16_t x : bf16) {
    if (!std::isfinite(bf16_to_f32(x))) return false;
  }
  return true;
}

}  // namespace

Status LatentIndex::save(const std::string& prefix, TensorSink& sink) const {
  VESTIGE_TRY(save_state(prefix, "anchor_norm", sink));
  if (segments_.empty()) return {};
  const LatentForm& form = basis_.form;
  std::vector<int64_t> sizes;
  for (const LatentSegment& s : segments_)
    sizes.insert(sizes.end(), {s.first, s.n, form.rank, form.bits, s.n_residuals});
  const auto n = static_cast<int64_t>(segments_.size());
  VESTIGE_TRY(sink.put(prefix + "anchor_sizes", ConstTensorView(sizes.data(), DType::kI64, {n, kSizes})));
  VESTIGE_TRY(sink.put(prefix + "anchor_mean", ConstTensorView(basis_.mean.data(), DType::kBF16, {1, form.d_row()})));
  VESTIGE_TRY(sink.put(prefix + "anchor_basis",
                       ConstTensorView(basis_.basis.data(), DType::kBF16, {form.d_content, form.rank})));
  for (size_t i = 0; i < segments_.size(); ++i) {
    const LatentSegment& s = segments_[i];
    VESTIGE_TRY(
        sink.put(name_of(prefix, i, "codes"), ConstTensorView(s.codes.data(), DType::kU8, {s.n, form.coarse_bytes()})));
    VESTIGE_TRY(sink.put(name_of(prefix, i, "mask"),
                         ConstTensorView(s.mask.data(), DType::kI64, {static_cast<int64_t>(s.mask.size()), 1})));
    if (s.n_residuals == 0) continue;
    VESTIGE_TRY(sink.put(name_of(prefix, i, "residuals"),
                         ConstTensorView(s.residuals.data(), DType::kU8, {s.n_residuals, form.residual_bytes()})));
  }
  return {};
}

Status LatentIndex::load_basis(const std::string& prefix, const TensorSource& source, const int64_t* sizes) {
  const int64_t rank = sizes[kRank], bits = sizes[kBits];
  if (rank < 8 || rank > layout_.d_content / 2 || !std::has_single_bit(static_cast<uint64_t>(rank)) || bits < 2 ||
      bits > 4) {
    return data_loss("%sanchor_sizes: rank %lld of %lld bits, want a power of two, 8 to %d, and 2 to 4", prefix.c_str(),
                     static_cast<long long>(rank), static_cast<long long>(bits), layout_.d_content / 2);
  }
  LatentForm& form = basis_.form;
  form.d_content = layout_.d_content;
  form.d_branch = layout_.d_branch;
  form.rank = rank;
  form.bits = static_cast<int32_t>(bits);
  VESTIGE_TRY(load_array(source, prefix + "anchor_mean", DType::kBF16, 1, form.d_row(), &basis_.mean));
  VESTIGE_TRY(load_array(source, prefix + "anchor_basis", DType::kBF16, form.d_content, rank, &basis_.basis));
  if (finite_halves(basis_.mean) && finite_halves(basis_.basis)) return {};
  return data_loss("%sanchor_mean, anchor_basis: a number is not finite", prefix.c_str());
}

Status LatentIndex::load_segment(const std::string& prefix, const TensorSource& source, const int64_t* sizes,
                                 int64_t first) {
  const LatentForm& form = basis_.form;
  const std::string name = name_of(prefix, segments_.size(), "");
  const int64_t end = span().coded_end(n_closed_), n = sizes[kTokens], n_residuals = sizes[kResiduals];
  if (sizes[kFirst] != first || n < 1 || n > end - first || n_residuals < 0 || n_residuals > n ||
      sizes[kRank] != form.rank || sizes[kBits] != form.bits) {
    return data_loss(
        "%ssizes: %lld rows from %lld on with %lld residuals, want rows from %lld up to %lld and no more "
        "residuals than rows, and rank and bits of the first segment",
        name.c_str(), static_cast<long long>(n), static_cast<long long>(sizes[kFirst]),
        static_cast<long long>(n_residuals), static_cast<long long>(first), static_cast<long long>(end));
  }
  LatentSegment s;
  s.first = first;
  s.n = n;
  s.n_residuals = n_residuals;
  VESTIGE_TRY(load_array(source, name + "codes", DType::kU8, n, form.coarse_bytes(), &s.codes));
  VESTIGE_TRY(load_array(source, name + "mask", DType::kI64, (n + 63) / 64, 1, &s.mask));
  if (n_residuals > 0) {
    VESTIGE_TRY(load_array(source, name + "residuals", DType::kU8, n_residuals, form.residual_bytes(), &s.residuals));
  }
  if (!check_latent(form, s)) {
    return data_loss(
        "%smask, codes or residuals: want as many rows as residuals, and scales that are finite, 0 or more",
        name.c_str());
  }
  segments_.push_back(std::move(s));
  return {};
}

Status LatentIndex::load(const std::string& prefix, const TensorSource& source, int64_t n_closed) {
  LatentIndex loaded(layout_, settings_);
  VESTIGE_TRY(loaded.load_state(prefix, "anchor_norm", std::numeric_limits<float>::max(), source, n_closed));
  if (loaded.n_closed_ > 0) {
    const auto load = [&](const int64_t* sizes, int64_t first) {
      if (loaded.segments_.empty()) VESTIGE_TRY(loaded.load_basis(prefix, source, sizes));
      return loaded.load_segment(prefix, source, sizes, first);
    };
    VESTIGE_TRY(load_segments<kSizes>(prefix, source, span().n_sinks, span().coded_end(n_closed), load));
  }
  *this = std::move(loaded);
  return {};
}

}  // namespace vestige::anchor
