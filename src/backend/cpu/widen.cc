#include "backend/cpu/widen.h"

#include <algorithm>

// foreach_target.h comes first: it compiles this file once a target.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/widen.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "backend/cpu/block-inl.h"
#include "backend/cpu/load-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

template <class T>
void widen_row(const T* src, int64_t k, const float* scale, float* dst) {
  const D d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  const auto scaled = [&](hn::Vec<D> v, int64_t c) {
    if constexpr (sizeof(T) == 1) return hn::Mul(v, hn::Set(d, scale[c / kScaleBlock]));
    return v;
  };
  int64_t c = 0;
  for (; c + kLanes <= k; c += kLanes) hn::StoreU(scaled(widen(d, src + c), c), d, dst + c);
  if (c < k) store_n(d, scaled(widen_n(d, src + c, k - c), c), dst + c, k - c);
}

void widen_all(const Weight& w, int64_t row_begin, int64_t n_rows, float* dst, int64_t dst_stride) {
  if (w.in_blocks()) {
    return with_blocks(w.dtype, [&](auto blocks) {
      using B = decltype(blocks);
      constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
      for (int64_t i = 0; i < n_rows; ++i) {
        float* to = dst + i * dst_stride;
        for_groups<B>(D(), w.block_at<B>(row_begin + i), w.k, [&](int64_t c, const hn::Vec<D>* wide) {
          for (int v = 0; v < kGroupVectors<D>; ++v) hn::StoreU(wide[v], D(), to + c + v * kLanes);
        });
      }
    });
  }
  with_element(w.dtype, [&](auto element) {
    using T = decltype(element);
    for (int64_t i = 0; i < n_rows; ++i) {
      const int64_t row = row_begin + i;
      widen_row(static_cast<const T*>(w.data) + row * w.stride, w.k, w.scale + row / kScaleBlock * w.scale_stride,
                dst + i * dst_stride);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace vestige::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(widen_all);

void widen_rows(const Weight& w, int64_t row_begin, int64_t n_rows, float* dst, int64_t dst_stride) {
  HWY_DYNAMIC_DISPATCH(widen_all)(w, row_begin, n_rows, dst, dst_stride);
}

}  // namespace vestige::cpu
#endif
