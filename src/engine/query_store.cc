#include "engine/query_store.h"

#include <algorithm>
#include <cstring>

namespace vestige {

Status QueryStore::add(const ConstTensorView& queries, int64_t position) {
  if (queries.rank != 3 || queries.dtype != DType::kF32 || !queries.contiguous()) {
    return internal_error("prefill queries are %s, want dense [t, h_q, d] F32", describe(queries).c_str());
  }
  if (width() == 0) {
    h_q_ = queries.dim(1);
    d_ = queries.dim(2);
  }
  if (queries.dim(1) != h_q_ || queries.dim(2) != d_ || position != end_) {
    return internal_error("prefill queries are %s at position %lld, want [t, %lld, %lld] at %lld",
                          describe(queries).c_str(), static_cast<long long>(position), static_cast<long long>(h_q_),
                          static_cast<long long>(d_), static_cast<long long>(end_));
  }
  const int64_t end = end_ + queries.dim(0);
  drop_before(end - std::min(end, n_wanted_));
  for (int64_t at = std::max(position, begin_); at < end;) {
    const int64_t slab = at / kSlab, n = std::min(end, (slab + 1) * kSlab) - at;
    if (slab - first_slab_ == static_cast<int64_t>(slabs_.size())) {
      slabs_.emplace_back(static_cast<size_t>(kSlab * width()));
    }
    std::memcpy(slabs_[static_cast<size_t>(slab - first_slab_)].data() + at % kSlab * width(),
                queries.as<float>() + (at - position) * width(), static_cast<size_t>(n * width()) * sizeof(float));
    at += n;
  }
  end_ = end;
  return {};
}

void QueryStore::drop_before(int64_t position) {
  begin_ = std::max(begin_, position);
  const int64_t slab = begin_ / kSlab;
  for (; first_slab_ < slab && !slabs_.empty(); ++first_slab_) slabs_.pop_front();
  first_slab_ = slab;
}

void QueryStore::want(int64_t n_tokens) {
  n_wanted_ = n_tokens;
  drop_before(end_ - std::min(end_, n_wanted_));
}

Status QueryStore::absorb(const Model& model, size_t cache_index, int64_t position, const TensorView& out,
                          Stream& stream) const {
  const int64_t end = position + out.dim(0);
  if (position < begin_ || end > end_) {
    return internal_error("queries of [%lld, %lld) wanted, [%lld, %lld) are at hand", static_cast<long long>(position),
                          static_cast<long long>(end), static_cast<long long>(begin_), static_cast<long long>(end_));
  }
  for (int64_t at = position; at < end;) {
    const int64_t slab = at / kSlab, n = std::min(end, (slab + 1) * kSlab) - at;
    const float* from = slabs_[static_cast<size_t>(slab - first_slab_)].data() + at % kSlab * width();
    VESTIGE_TRY(model.absorb(cache_index, ConstTensorView(from, DType::kF32, {n, h_q_, d_}),
                             out.slice(at - position, n), stream));
    at += n;
  }
  return {};
}

}  // namespace vestige
