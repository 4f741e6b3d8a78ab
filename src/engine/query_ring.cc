#include "engine/query_ring.h"

#include <algorithm>
#include <cstring>

namespace vestige {

Status QueryRing::add(const ConstTensorView& queries, int64_t position) {
  if (queries.rank != 3 || queries.dtype != DType::kF32 || !queries.contiguous()) {
    return internal_error("prefill queries are %s, want dense [t, h_q, d] F32", describe(queries).c_str());
  }
  if (values_.empty()) {
    h_q_ = queries.dim(1);
    d_ = queries.dim(2);
    values_.resize(static_cast<size_t>(kTokens * h_q_ * d_));
  }
  if (queries.dim(1) != h_q_ || queries.dim(2) != d_ || position != n_total_) {
    return internal_error("prefill queries are %s at position %lld, want [t, %lld, %lld] at %lld",
                          describe(queries).c_str(), static_cast<long long>(position), static_cast<long long>(h_q_),
                          static_cast<long long>(d_), static_cast<long long>(n_total_));
  }
  const int64_t t = queries.dim(0), width = h_q_ * d_;
  for (int64_t i = std::max<int64_t>(0, t - kTokens); i < t; ++i) {
    std::memcpy(values_.data() + (position + i) % kTokens * width, queries.as<float>() + i * width,
                static_cast<size_t>(width) * sizeof(float));
  }
  n_total_ += t;
  return {};
}

Status QueryRing::absorb(const Model& model, size_t cache_index, const TensorView& out, Stream& stream) const {
  const int64_t n = size(), width = h_q_ * d_;
  const int64_t oldest = n < kTokens ? 0 : n_total_ % kTokens;
  const int64_t n_first = n - oldest;  // the ring wraps once: [oldest, n), then [0, oldest)
  const auto piece = [&](int64_t from, int64_t count, int64_t to) -> Status {
    if (count == 0) return {};
    const ConstTensorView q(values_.data() + from * width, DType::kF32, {count, h_q_, d_});
    return model.absorb(cache_index, q, out.slice(to, count), stream);
  };
  VESTIGE_TRY(piece(oldest, n_first, 0));
  return piece(0, oldest, n_first);
}

}  // namespace vestige
