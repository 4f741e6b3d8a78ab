// The coded latent segments to a file and back: sizes before memory, then what decoding counts on.

#include <bit>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "cache/policies/anchor/latent_index.h"

namespace vestige::anchor {

namespace {

enum Size : uint8_t { kFirst, kTokens, kRank, kBits, kResiduals, kSizes };

std::string name_of(const std::string& prefix, size_t segment, const char* array) {
  return prefix + "anchor" + std::to_string(segment) + "_" + array;
}

template <class T>
Status load_array(const TensorSource& source, const std::string& name, DType dtype, int64_t n, int64_t width,
                  std::vector<T>* out) {
  VESTIGE_ASSIGN(const ConstTensorView view, source.get(name, dtype, {n, width}));
  out->resize(static_cast<size_t>(n * width));
  std::memcpy(out->data(), view.data, out->size() * sizeof(T));
  return {};
}

bool finite_halves(const std::vector<uint16_t>& bf16) {
  for (const uint16_t x : bf16) {
    if (!std::isfinite(bf16_to_f32(x))) return false;
  }
  return true;
}

}  // namespace

Status LatentIndex::save(const std::string& prefix, TensorSink& sink) const {
  const uint8_t ready = ready_ ? 1 : 0;
  VESTIGE_TRY(sink.put(prefix + "index_ready", ConstTensorView(&ready, DType::kU8, {1})));
  if (!ready_) return {};
  VESTIGE_TRY(sink.put(prefix + "anchor_norm", ConstTensorView(&max_norm_, DType::kF32, {1})));
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

Status LatentIndex::load_segment(const std::string& prefix, const TensorSource& source, const int64_t* sizes) {
  const LatentForm& form = basis_.form;
  const std::string name = name_of(prefix, segments_.size(), "");
  const int64_t end = n_closed_ - settings_.window, n = sizes[kTokens], n_residuals = sizes[kResiduals];
  if (sizes[kFirst] != n_coded_ || n < 1 || n > end - n_coded_ || n_residuals < 0 || n_residuals > n ||
      sizes[kRank] != form.rank || sizes[kBits] != form.bits) {
    return data_loss(
        "%ssizes: %lld rows from %lld on with %lld residuals, want rows from %lld up to %lld and no more "
        "residuals than rows, and rank and bits of the first segment",
        name.c_str(), static_cast<long long>(n), static_cast<long long>(sizes[kFirst]),
        static_cast<long long>(n_residuals), static_cast<long long>(n_coded_), static_cast<long long>(end));
  }
  LatentSegment s;
  s.first = n_coded_;
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
  n_coded_ += n;
  segments_.push_back(std::move(s));
  return {};
}

Status LatentIndex::load(const std::string& prefix, const TensorSource& source, int64_t n_closed) {
  LatentIndex loaded(layout_, settings_);
  VESTIGE_ASSIGN(const ConstTensorView flag, source.get(prefix + "index_ready", DType::kU8, {1}));
  const uint8_t ready = *flag.as<uint8_t>();
  if (ready > 1) return data_loss("%sindex_ready = %d, want 0 or 1", prefix.c_str(), ready);
  if (ready == 1) {
    VESTIGE_ASSIGN(const ConstTensorView norm, source.get(prefix + "anchor_norm", DType::kF32, {1}));
    std::memcpy(&loaded.max_norm_, norm.data, sizeof(float));
    if (!(loaded.max_norm_ >= 0 && std::isfinite(loaded.max_norm_)))
      return data_loss("%sanchor_norm: want 0 or more", prefix.c_str());
    loaded.ready_ = true;
    loaded.n_closed_ = n_closed;
  }
  if (ready == 1 && n_closed > 0) {
    VESTIGE_ASSIGN(const ConstTensorView view, source.get(prefix + "anchor_sizes", DType::kI64, {-1, kSizes}));
    loaded.segments_.reserve(static_cast<size_t>(view.dim(0)));
    for (int64_t i = 0; i < view.dim(0); ++i) {
      int64_t sizes[kSizes];
      std::memcpy(sizes, view.as<int64_t>() + i * kSizes, sizeof sizes);
      if (i == 0) VESTIGE_TRY(loaded.load_basis(prefix, source, sizes));
      VESTIGE_TRY(loaded.load_segment(prefix, source, sizes));
    }
    if (loaded.n_coded_ != n_closed - settings_.window) {
      return data_loss("%sanchor_sizes: rows up to %lld, want %lld", prefix.c_str(),
                       static_cast<long long>(loaded.n_coded_), static_cast<long long>(n_closed - settings_.window));
    }
  }
  *this = std::move(loaded);
  return {};
}

}  // namespace vestige::anchor
