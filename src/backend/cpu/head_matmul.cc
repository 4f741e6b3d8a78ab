#include <algorithm>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/gemv.h"
#include "backend/cpu/tiles.h"

// foreach_target.h comes first: it compiles this file once a target.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/head_matmul.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "backend/cpu/load-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// out[j] = (begin == 0 ? 0 : out[j]) + sum over rows [begin, begin + kRows) of w, in order, of x[c] w[c, j]: every
// column has one chain of fused multiply-adds over c, so its bits do not depend on the vector it is in nor on kRows.
template <int kRows, class D, class T>
HWY_INLINE void add_rows(D d, const float* x, const T* w, int64_t stride, bool first, int64_t begin, int64_t end,
                         float* out) {
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  hn::Vec<D> a[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) a[r] = hn::Set(d, x[r]);
  for (int64_t j = begin; j < end; j += kLanes) {
    auto sum = first ? hn::Zero(d) : hn::LoadU(d, out + j);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sum = hn::MulAdd(a[r], widen(d, w + r * stride + j), sum);
    hn::StoreU(sum, d, out + j);
  }
}

// Eight whole rows of w at a time, which is one linear stream where they are dense; out stays in the L1 cache.
template <class T>
void transposed_row(const float* x, const T* w, int64_t stride, int64_t k, int64_t n, float* out) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  const int64_t whole = n / kLanes * kLanes;
  if (k == 0) std::fill_n(out, n, 0.0f);
  for (int64_t c = 0; c < k;) {
    if (c + 8 <= k) {
      add_rows<8>(d, x + c, w + c * stride, stride, c == 0, 0, whole, out);
      add_rows<8>(one, x + c, w + c * stride, stride, c == 0, whole, n, out);
      c += 8;
    } else {
      add_rows<1>(d, x + c, w + c * stride, stride, c == 0, 0, whole, out);
      add_rows<1>(one, x + c, w + c * stride, stride, c == 0, whole, n, out);
      c += 1;
    }
  }
}

void transposed_rows(const HeadMatmulParams& p, int64_t head, int64_t begin, int64_t end) {
  with_element(p.w.dtype, [&](auto element) {
    using T = decltype(element);
    const T* w = p.w.as<T>() + head * p.w.stride[0];
    for (int64_t i = begin; i < end; ++i) {
      transposed_row(p.x.as<float>() + i * p.x.stride[0] + head * p.x.stride[1], w, p.w.stride[1], p.x.dim(2),
                     p.out.dim(2), p.out.as<float>() + i * p.out.stride[0] + head * p.out.stride[1]);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace vestige::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(transposed_rows);

namespace {

constexpr int64_t kTokens = 8;  // tokens of one piece

void plain_rows(const HeadMatmulParams& p, int64_t head, int64_t begin, int64_t end) {
  Weight w{p.w.data, p.w.dtype, p.w.dim(1), p.w.dim(2), p.w.stride[1]};
  w.data = p.w.as<std::byte>() + head * p.w.stride[0] * static_cast<int64_t>(dtype_bytes(p.w.dtype));
  gemv_rows({.x = p.x.as<float>() + begin * p.x.stride[0] + head * p.x.stride[1],
             .x_stride = p.x.stride[0],
             .m = end - begin,
             .w = w,
             .row_begin = 0,
             .row_end = w.n,
             .out = p.out.as<float>() + begin * p.out.stride[0] + head * p.out.stride[1],
             .out_stride = p.out.stride[0]});
}

}  // namespace

Status head_matmul(const HeadMatmulParams& p, Stream& stream) {
  if (p.out.n_elements() == 0) return {};
  const int64_t t = p.x.dim(0), h = p.x.dim(1);
  const auto rows = p.transposed ? HWY_DYNAMIC_DISPATCH(transposed_rows) : &plain_rows;
  // Heads of one piece: at least 32 KB of weights, so that a small product wakes no worker, and with few tokens one
  // stretch of heads a thread, as in matmul.
  const int64_t least = 16384 / std::max<int64_t>(1, p.x.dim(2) * p.out.dim(2));
  const int64_t share = t > kTokens ? 1 : ceil_div(h, stream.n_threads());
  const int64_t heads = std::max<int64_t>({1, least, share});
  const int64_t groups = ceil_div(h, heads);
  stream.pool()->run(groups * ((t + kTokens - 1) / kTokens), [&](int64_t i, int32_t) {
    const int64_t begin = i / groups * kTokens, first = i % groups * heads;
    for (int64_t head = first; head < std::min(h, first + heads); ++head) {
      rows(p, head, begin, std::min(t, begin + kTokens));
    }
  });
  return {};
}

}  // namespace vestige::cpu
#endif
