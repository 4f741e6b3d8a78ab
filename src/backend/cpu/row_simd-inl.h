// Vector code shared by the ops over rows. Included once per target (Highway's -inl convention): no #pragma once.
// A row is read in blocks of 2 * kLanes numbers. bf16 is widened with one cheap instruction a vector by leaving
// the even numbers of a block in the first vector and the odd ones in the second; queries and outputs are laid
// out the same way, so nothing is ever shuffled in the loop.

#if defined(VESTIGE_ROW_SIMD_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESTIGE_ROW_SIMD_INL_
#undef VESTIGE_ROW_SIMD_INL_
#else
#define VESTIGE_ROW_SIMD_INL_
#endif

#include <cstdint>
#include <cstring>

#include "base/half.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
using DU = hn::Repartition<uint32_t, DF>;
inline constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(DF()));
inline constexpr int64_t kBlock = 2 * kLanes;
/// Heads that share one pass over a tile of rows.
inline constexpr int64_t kGroup = 8;
/// Heads in one register block: 8 x 2 sums and their operands fit 32 registers, 4 x 2 fit 16.
inline constexpr int64_t kSub = HWY_TARGET <= HWY_AVX3 ? 8 : 4;
/// Heads and rows whose sums are one register block of dot_rows. Queries of four heads of 576 numbers are 18 KB and
/// stay in the L1 cache while the rows of a tile pass; those of eight would come from the L2 cache for every block of
/// rows.
inline constexpr int64_t kDotHeads = 4, kDotRows = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
using DG = hn::CappedTag<float, static_cast<size_t>(kGroup)>;
inline constexpr int64_t kGroupLanes = static_cast<int64_t>(hn::MaxLanes(DG()));

/// Storage types of a row; `kSplit` = even and odd numbers are apart in a block.
struct RowF32 {
  using Type = float;
  static constexpr bool kSplit = false;
  static HWY_INLINE void load(const float* p, VF& first, VF& second) {
    first = hn::LoadU(DF(), p);
    second = hn::LoadU(DF(), p + kLanes);
  }
};
struct RowBF16 {
  using Type = uint16_t;
  static constexpr bool kSplit = true;
  static HWY_INLINE void load(const uint16_t* p, VF& first, VF& second) {
#if HWY_TARGET == HWY_SCALAR
    first = hn::Set(DF(), bf16_to_f32(p[0]));
    second = hn::Set(DF(), bf16_to_f32(p[1]));
#else
    const DU du;
    const auto pairs = hn::BitCast(du, hn::LoadU(hn::Repartition<uint16_t, DF>(), p));
    first = hn::BitCast(DF(), hn::ShiftLeft<16>(pairs));
    second = hn::BitCast(DF(), hn::And(pairs, hn::Set(du, 0xffff0000u)));
#endif
  }
};
struct RowF16 {
  using Type = uint16_t;
  static constexpr bool kSplit = false;
  static HWY_INLINE VF half(const uint16_t* p) {
    const hn::Rebind<hwy::float16_t, DF> dh;
    const auto bits = hn::LoadU(hn::Rebind<uint16_t, DF>(), p);
    return hn::PromoteTo(DF(), hn::BitCast(dh, bits));
  }
  static HWY_INLINE void load(const uint16_t* p, VF& first, VF& second) {
    first = half(p);
    second = half(p + kLanes);
  }
};

/// Place of number i of a block in its possibly split image.
HWY_INLINE int64_t place(bool split, int64_t i) { return split ? i % 2 * kLanes + i / 2 : i; }

/// exp(x) for x <= 0 to about 1e-7 relative; 0 below -87.3; NaN stays NaN.
template <class D, class V>
HWY_INLINE V exp_nonpositive(D d, V x) {
  const V log2e = hn::Set(d, 1.44269504088896341f);
  const auto n = hn::NearestInt(hn::Mul(x, log2e));
  const V nf = hn::ConvertTo(d, n);
  V r = hn::NegMulAdd(nf, hn::Set(d, 0.693145751953125f), x);
  r = hn::NegMulAdd(nf, hn::Set(d, 1.42860682030941723212e-6f), r);
  V poly = hn::Set(d, 1.0f / 5040.0f);
  poly = hn::MulAdd(poly, r, hn::Set(d, 1.0f / 720.0f));
  poly = hn::MulAdd(poly, r, hn::Set(d, 1.0f / 120.0f));
  poly = hn::MulAdd(poly, r, hn::Set(d, 1.0f / 24.0f));
  poly = hn::MulAdd(poly, r, hn::Set(d, 1.0f / 6.0f));
  poly = hn::MulAdd(poly, r, hn::Set(d, 0.5f));
  poly = hn::MulAdd(hn::Mul(poly, r), r, hn::Add(r, hn::Set(d, 1.0f)));
  const hn::RebindToSigned<D> di;
  const V two_n = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3f)), hn::Mul(poly, two_n));
}

#if HWY_TARGET != HWY_SCALAR
template <class D>
HWY_INLINE auto fold_to_128(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(d) <= 4) {
    return v;
  } else {
    const hn::Half<D> dh;
    return fold_to_128(dh, hn::Add(hn::LowerHalf(dh, v), hn::UpperHalf(dh, v)));
  }
}

#endif

/// Writes the four sums over the lanes of a, b, c, e, always added in the same order.
HWY_INLINE void store_sums(VF a, VF b, VF c, VF e, float* out) {
  const DF d;
#if HWY_TARGET == HWY_SCALAR
  hn::StoreU(a, d, out);
  hn::StoreU(b, d, out + 1);
  hn::StoreU(c, d, out + 2);
  hn::StoreU(e, d, out + 3);
#else
  const hn::Repartition<double, DF> d64;
  const auto ab = hn::BitCast(d64, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce = hn::BitCast(d64, hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  const VF sums =
      hn::Add(hn::BitCast(d, hn::InterleaveLower(d64, ab, ce)), hn::BitCast(d, hn::InterleaveUpper(d64, ab, ce)));
  hn::StoreU(fold_to_128(d, sums), hn::FixedTag<float, 4>(), out);
#endif
}

/// Adds one segment of kRows rows to their sums with kN heads. q: [n_blocks, kHeads, kBlock].
template <int64_t kHeads, class Row, int64_t kRows, int64_t kN>
HWY_INLINE void dot_segment(const float* HWY_RESTRICT q, const typename Row::Type* const (&row)[kRows],
                            int64_t n_blocks, VF (&sum)[kRows][kN]) {
  const DF d;
  for (int64_t k = 0; k < n_blocks; ++k, q += kHeads * kBlock) {
    VF first[kRows], second[kRows];
#pragma GCC unroll 8
    for (int64_t t = 0; t < kRows; ++t) Row::load(row[t] + k * kBlock, first[t], second[t]);
#pragma GCC unroll 8
    for (int64_t i = 0; i < kN; ++i) {
      const VF a = hn::LoadU(d, q + i * kBlock), b = hn::LoadU(d, q + i * kBlock + kLanes);
#pragma GCC unroll 8
      for (int64_t t = 0; t < kRows; ++t) sum[t][i] = hn::MulAdd(a, first[t], sum[t][i]);
#pragma GCC unroll 8
      for (int64_t t = 0; t < kRows; ++t) sum[t][i] = hn::MulAdd(b, second[t], sum[t][i]);
    }
  }
}

/// Rows of a tile and where their two segments lie.
template <class Row0, class Row1>
struct TileRows {
  const typename Row0::Type* const* first;
  const typename Row1::Type* const* second;
  int64_t n0, n1;  // blocks in each segment
};

/// s[t, head] = q . row for rows [t, min(t + kRows, n)) and kDotHeads heads; past the end the last row is read again.
template <int64_t kHeads, int64_t kRows, class Row0, class Row1>
HWY_INLINE void dot_few(const TileRows<Row0, Row1>& rows, int64_t t, int64_t n, const float* HWY_RESTRICT q, float* s) {
  const typename Row0::Type* first[kRows];
  const typename Row1::Type* second[kRows];
  VF sum[kRows][kDotHeads];
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) {
    const int64_t u = HWY_MIN(t + r, n - 1);
    first[r] = rows.first[u];
    second[r] = rows.second[u];
#pragma GCC unroll 8
    for (int64_t i = 0; i < kDotHeads; ++i) sum[r][i] = hn::Zero(DF());
  }
  dot_segment<kHeads, Row0>(q, first, rows.n0, sum);
  dot_segment<kHeads, Row1>(q + rows.n0 * kHeads * kBlock, second, rows.n1, sum);
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) {
    if (t + r < n) store_sums(sum[r][0], sum[r][1], sum[r][2], sum[r][3], s + (t + r) * kHeads);
  }
}

/// s[t, head] = q . row for n rows and one group of kHeads heads, a multiple of kDotHeads.
template <int64_t kHeads = kGroup, class Row0, class Row1>
HWY_INLINE void dot_rows(const TileRows<Row0, Row1>& rows, int64_t n, const float* HWY_RESTRICT q, float* s) {
  for (int64_t head = 0; head < kHeads; head += kDotHeads) {
    int64_t t = 0;
    for (; t + kDotRows <= n; t += kDotRows) dot_few<kHeads, kDotRows>(rows, t, n, q + head * kBlock, s + head);
    for (; t < n; t += 2) dot_few<kHeads, 2>(rows, t, n, q + head * kBlock, s + head);
  }
}

/// Writes one head's segment [n] into its slots of a group's image (one block every `heads`); the rest of its last
/// block must be zero already.
HWY_INLINE void place_segment(const float* x, int64_t n, bool split, float* slot, int64_t heads = kGroup) {
  const DF d;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock, slot += heads * kBlock) {
    VF a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + i + kLanes);
    if (split) hn::LoadInterleaved2(d, x + i, a, b);
    hn::StoreU(a, d, slot);
    hn::StoreU(b, d, slot + kLanes);
  }
  for (int64_t k = 0; i + k < n; ++k) slot[place(split, k)] = x[i + k];
}

/// The way back, out of the slots of one head.
HWY_INLINE void take_segment(const float* slot, int64_t n, bool split, float* x, int64_t heads = kGroup) {
  const DF d;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock, slot += heads * kBlock) {
    const VF a = hn::LoadU(d, slot), b = hn::LoadU(d, slot + kLanes);
    if (split) {
      hn::StoreInterleaved2(a, b, d, x + i);
    } else {
      hn::StoreU(a, d, x + i);
      hn::StoreU(b, d, x + i + kLanes);
    }
  }
  for (int64_t k = 0; i + k < n; ++k) x[i + k] = slot[place(split, k)];
}

}  // namespace vestige::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VESTIGE_ROW_SIMD_INL_
