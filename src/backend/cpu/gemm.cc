#include "backend/cpu/gemm.h"

#include <algorithm>

// foreach_target.h comes first: it compiles this file once a target.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm.cc"
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
constexpr int64_t kPanel = 2 * kLanes;  // columns of a panel
// Rows of a block: 12 x 2 accumulators of the 32 registers of AVX-512, 6 x 2 of the 16 of AVX2. `<=`: of the AVX-512
// targets AVX3 is the oldest, and newer ones have lower numbers.
constexpr int kBlock = HWY_TARGET <= HWY_AVX3 ? 12 : 6;

template <int kRows>
HWY_INLINE void block(const GemmParams& p, const float* HWY_RESTRICT panel, int64_t i0, int64_t j0, int64_t n) {
  const D d;
  V sum[kRows][2];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) sum[i][0] = sum[i][1] = hn::Zero(d);
  const float* x = p.x + i0 * p.x_stride;
  for (int64_t c = 0; c < p.w.k; ++c) {
    const V w0 = hn::Load(d, panel + c * kPanel), w1 = hn::Load(d, panel + c * kPanel + kLanes);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const V a = hn::Set(d, x[i * p.x_stride + c]);
      sum[i][0] = hn::MulAdd(a, w0, sum[i][0]);
      sum[i][1] = hn::MulAdd(a, w1, sum[i][1]);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    float* out = p.out + (i0 + i) * p.out_stride + j0;
    if (n == kPanel) {
      if (p.accumulate) {
        sum[i][0] = hn::Add(hn::LoadU(d, out), sum[i][0]);
        sum[i][1] = hn::Add(hn::LoadU(d, out + kLanes), sum[i][1]);
      }
      hn::StoreU(sum[i][0], d, out);
      hn::StoreU(sum[i][1], d, out + kLanes);
      continue;
    }
    HWY_ALIGN float row[kPanel];
    hn::Store(sum[i][0], d, row);
    hn::Store(sum[i][1], d, row + kLanes);
    for (int64_t j = 0; j < n; ++j) out[j] = p.accumulate ? out[j] + row[j] : row[j];
  }
}

// Four rows of w, columns [c, c + 4), turned so that the four stand side by side in the panel.
template <class T>
HWY_INLINE void pack_tile(const Weight& w, int64_t row, int64_t n, int64_t c, float* panel) {
  const hn::CappedTag<float, 4> d;
  constexpr auto kWide = static_cast<int64_t>(hn::MaxLanes(hn::CappedTag<float, 4>()));
  const int64_t rest = w.k - c;
  const auto load = [&](int64_t r) {
    if (r >= n) return hn::Zero(d);
    const T* p = static_cast<const T*>(w.data) + (row + r) * w.stride + c;
    const auto v = rest >= kWide ? widen(d, p) : widen_n(d, p, rest);
    if constexpr (sizeof(T) == 1) {
      return hn::Mul(v, hn::Set(d, w.scale[(row + r) / kScaleBlock * w.scale_stride + c / kScaleBlock]));
    }
    return v;
  };
#if HWY_TARGET == HWY_SCALAR
  for (int64_t r = 0; r < kWide; ++r) panel[c * kPanel + r] = hn::GetLane(load(r));
#else
  const auto r0 = load(0), r1 = load(1), r2 = load(2), r3 = load(3);
  const auto low02 = hn::InterleaveLower(d, r0, r2), low13 = hn::InterleaveLower(d, r1, r3);
  const auto high02 = hn::InterleaveUpper(d, r0, r2), high13 = hn::InterleaveUpper(d, r1, r3);
  hn::Store(hn::InterleaveLower(d, low02, low13), d, panel + c * kPanel);
  if (rest > 1) hn::Store(hn::InterleaveUpper(d, low02, low13), d, panel + (c + 1) * kPanel);
  if (rest > 2) hn::Store(hn::InterleaveLower(d, high02, high13), d, panel + (c + 2) * kPanel);
  if (rest > 3) hn::Store(hn::InterleaveUpper(d, high02, high13), d, panel + (c + 3) * kPanel);
#endif
}

// Panel [k, kPanel]: rows [row, row + n) of w turned and widened, zeros past n.
template <class T>
void pack(const Weight& w, int64_t row, int64_t n, float* panel) {
  constexpr auto kWide = static_cast<int64_t>(hn::MaxLanes(hn::CappedTag<float, 4>()));
  for (int64_t r = 0; r < kPanel; r += kWide) {
    for (int64_t c = 0; c < w.k; c += kWide) pack_tile<T>(w, row + r, n - r, c, panel + r);
  }
}

// The same of a weight in blocks: four rows at a time are decoded, a block each, and turned from there.
template <class B>
void pack_blocks(const Weight& w, int64_t row, int64_t n, float* panel) {
  const D d;
  constexpr auto kWide = static_cast<int64_t>(hn::MaxLanes(hn::CappedTag<float, 4>()));
  HWY_ALIGN float numbers[kWide * B::kNumbers];
  const Weight few{.data = numbers, .n = kWide, .k = B::kNumbers, .stride = B::kNumbers};
  for (int64_t r = 0; r < kPanel; r += kWide) {
    for (int64_t c = 0; c < w.k; c += B::kNumbers) {
      for (int64_t i = 0; i < std::min(kWide, n - r); ++i) {
        for_groups<B>(d, w.block_at<B>(row + r + i, c), B::kNumbers, [&](int64_t at, const V* wide) {
          for (int v = 0; v < kGroupVectors<D>; ++v) hn::Store(wide[v], d, numbers + i * B::kNumbers + at + v * kLanes);
        });
      }
      for (int64_t i = 0; i < B::kNumbers; i += kWide) pack_tile<float>(few, 0, n - r, i, panel + c * kPanel + r);
    }
  }
}

void pack_any(const Weight& w, int64_t row, int64_t n, float* panel) {
  if (w.in_blocks()) {
    with_blocks(w.dtype, [&](auto blocks) { pack_blocks<decltype(blocks)>(w, row, n, panel); });
  } else {
    with_element(w.dtype, [&](auto element) { pack<decltype(element)>(w, row, n, panel); });
  }
}

void gemm(const GemmParams& p) {
  for (int64_t col = p.col_begin; col < p.col_end; col += kPanel) {
    const int64_t n = std::min(kPanel, p.col_end - col), j = col - p.col_begin;
    pack_any(p.w, col, n, p.scratch);
    int64_t i = 0;
    for (; i + kBlock <= p.m; i += kBlock) block<kBlock>(p, p.scratch, i, j, n);
    for (; i + 4 <= p.m; i += 4) block<4>(p, p.scratch, i, j, n);
    for (; i < p.m; ++i) block<1>(p, p.scratch, i, j, n);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vestige::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(gemm);

int64_t gemm_scratch_floats(int64_t k) { return 32 * k; }  // the widest panel: two AVX-512 vectors

void gemm_slice(const GemmParams& p) { HWY_DYNAMIC_DISPATCH(gemm)(p); }

}  // namespace vestige::cpu
#endif
