#include "backend/cpu/gemv.h"

#include <algorithm>

// foreach_target.h comes first: it compiles this file once a target.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemv.cc"
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
using V = hn::Vec<D>;

constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
constexpr int64_t kStrip = 8;  // rows of w that stay in the L1 cache while all rows of x pass over them
constexpr int kChains = 4;     // hide the latency of a fused multiply-add
// Rows of x at a time: kChains accumulators each, of the 32 registers of AVX-512 or the 16 of AVX2.
constexpr int kRows = HWY_TARGET == HWY_AVX3 ? 4 : 2;

template <int M>
HWY_INLINE void finish(const GemvParams& p, V (&sum)[M][kChains], int64_t i0, int64_t j) {
#pragma GCC unroll 4
  for (int i = 0; i < M; ++i) {
    const V total = hn::Add(hn::Add(sum[i][0], sum[i][1]), hn::Add(sum[i][2], sum[i][3]));
    float* out = p.out + (i0 + i) * p.out_stride + j;
    const float value = hn::GetLane(hn::SumOfLanes(D(), total));
    *out = p.accumulate ? *out + value : value;
  }
}

// M rows of x against one row of w: one row, because a single linear stream is what the hardware prefetcher follows
// at the full rate of memory (eight rows at once: 0.4 of it). Vector v of k goes to chain v % kChains (the last,
// partial one to chain 0), whatever M is: that is the promise on bits.
template <int M, class T>
HWY_INLINE void dot(const GemvParams& p, int64_t i0, int64_t j) {
  const D d;
  const T* w = static_cast<const T*>(p.w.data) + j * p.w.stride;
  const float* scale = p.w.scale + j / kScaleBlock * p.w.scale_stride;
  const float* x = p.x + i0 * p.x_stride;
  V sum[M][kChains];
#pragma GCC unroll 4
  for (int i = 0; i < M; ++i) {
#pragma GCC unroll 4
    for (int u = 0; u < kChains; ++u) sum[i][u] = hn::Zero(d);
  }
  const auto scaled = [&](V v, int64_t c) {
    if constexpr (sizeof(T) == 1) return hn::Mul(v, hn::Set(d, scale[c / kScaleBlock]));
    return v;
  };
  int64_t c = 0;
  for (; c + kChains * kLanes <= p.w.k; c += kChains * kLanes) {
#pragma GCC unroll 4
    for (int u = 0; u < kChains; ++u) {
      const V wide = scaled(widen(d, w + c + u * kLanes), c + u * kLanes);
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) {
        sum[i][u] = hn::MulAdd(hn::LoadU(d, x + i * p.x_stride + c + u * kLanes), wide, sum[i][u]);
      }
    }
  }
#pragma GCC unroll 4
  for (int u = 0; u < kChains - 1; ++u) {
    if (c + kLanes > p.w.k) break;
    const V wide = scaled(widen(d, w + c), c);
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) sum[i][u] = hn::MulAdd(hn::LoadU(d, x + i * p.x_stride + c), wide, sum[i][u]);
    c += kLanes;
  }
  if (const int64_t rest = p.w.k - c; rest > 0) {
    const V wide = scaled(widen_n(d, w + c, rest), c);
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) sum[i][0] = hn::MulAdd(widen_n(d, x + i * p.x_stride + c, rest), wide, sum[i][0]);
  }
  finish<M>(p, sum, i0, j);
}

// The same over blocks of codes, with the bits that the decoded numbers give: whole groups, so no partial vector.
template <int M, class B>
requires(B::kNumbers > 0) HWY_INLINE void dot(const GemvParams& p, int64_t i0, int64_t j) {
  const D d;
  constexpr int kVectors = kGroupVectors<D>;
  const uint8_t* row = p.w.block_at<B>(j);
  const float* x = p.x + i0 * p.x_stride;
  V sum[M][kChains];
#pragma GCC unroll 4
  for (int i = 0; i < M; ++i) {
#pragma GCC unroll 4
    for (int u = 0; u < kChains; ++u) sum[i][u] = hn::Zero(d);
  }
  const auto add_group = [&](const uint8_t* block, const float* scales, int64_t group, int64_t c, int first) {
    V wide[kVectors];
    decode_group(B(), d, block, scales, group, wide);
#pragma GCC unroll 32
    for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) {
        V& chain = sum[i][(first + v) % kChains];
        chain = hn::MulAdd(hn::LoadU(d, x + i * p.x_stride + c + v * kLanes), wide[v], chain);
      }
    }
  };
  // Scales of many blocks first, through memory, from where a broadcast is a mere load. Then two groups a turn at
  // least: where a group is two vectors, the second goes to the other two chains.
  constexpr int64_t kSpan = 2048, kTurn = std::max<int64_t>(2 * kGroup, B::kNumbers);
  float scales[kSpan / B::kNumbers * kScales<B>];
  for (int64_t begin = 0; begin < p.w.k; begin += kSpan, row += kSpan / B::kNumbers * B::kBytes) {
    const int64_t n = std::min(kSpan, p.w.k - begin);
    for (int64_t i = 0; i < n / B::kNumbers; ++i) load_scales(B(), row + i * B::kBytes, scales + i * kScales<B>);
    int64_t c = 0;
    for (; c + kTurn <= n; c += kTurn) {
#pragma GCC unroll 8
      for (int64_t part = 0; part < kTurn; part += kGroup) {
        const int64_t i = c / B::kNumbers + part / B::kNumbers;
        add_group(row + i * B::kBytes, scales + i * kScales<B>, part % B::kNumbers / kGroup, begin + c + part,
                  static_cast<int>(part / kGroup) * kVectors % kChains);
      }
    }
    if (c < n) add_group(row + c / B::kNumbers * B::kBytes, scales + c / B::kNumbers * kScales<B>, 0, begin + c, 0);
  }
  finish<M>(p, sum, i0, j);
}

template <class T>
void gemv(const GemvParams& p) {
  for (int64_t begin = p.row_begin; begin < p.row_end; begin += kStrip) {
    const int64_t end = std::min(begin + kStrip, p.row_end);
    int64_t i = 0;
    for (; i + kRows <= p.m; i += kRows) {
      for (int64_t j = begin; j < end; ++j) dot<kRows, T>(p, i, j);
    }
    for (; i < p.m; ++i) {
      for (int64_t j = begin; j < end; ++j) dot<1, T>(p, i, j);
    }
  }
}

void gemv_all(const GemvParams& p) {
  if (p.w.in_blocks()) {
    with_blocks(p.w.dtype, [&](auto blocks) { gemv<decltype(blocks)>(p); });
  } else {
    with_element(p.w.dtype, [&](auto element) { gemv<decltype(element)>(p); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vestige::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(gemv_all);

void gemv_rows(const GemvParams& p) { HWY_DYNAMIC_DISPATCH(gemv_all)(p); }

}  // namespace vestige::cpu
#endif
