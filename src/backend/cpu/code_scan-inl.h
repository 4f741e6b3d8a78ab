// Scores of coded rows, a tile of 16 rows at a time: lanes are rows, entries are added up as integers. Included once
// per target (Highway's -inl convention): no #pragma once.

#if defined(VESTIGE_CODE_SCAN_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESTIGE_CODE_SCAN_INL_
#undef VESTIGE_CODE_SCAN_INL_
#else
#define VESTIGE_CODE_SCAN_INL_
#endif

#include <algorithm>

#include "backend/cpu/code_query.h"
#include "backend/cpu/row_simd-inl.h"
#include "backend/ops/norm_grid.h"
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu::HWY_NAMESPACE {

inline constexpr int64_t kTileRows = CodeStage::kTileRows;
/// Rows of one task.
inline constexpr int64_t kRunTiles = 32;
inline constexpr int64_t kRunRows = kRunTiles * kTileRows;
using DC = hn::CappedTag<float, static_cast<size_t>(kTileRows)>;
using DCI = hn::RebindToSigned<DC>;
using VC = hn::Vec<DC>;
using VCI = hn::Vec<DCI>;
/// Rows of one vector; a tile is kTileRows / kPartRows of them.
inline constexpr int64_t kPartRows = static_cast<int64_t>(hn::MaxLanes(DC()));
#if HWY_TARGET == HWY_AVX3_DL
inline constexpr CodeDot kDot = CodeDot::kBytes;
#else
inline constexpr CodeDot kDot = CodeDot::kPairs;
#endif
/// Heads at a time: 8 x 3 sums fit 32 registers, 4 x 2 fit 16.
inline constexpr int64_t kHeads = HWY_TARGET <= HWY_AVX3 ? 8 : 4;

HWY_INLINE VCI broadcast(const uint32_t* word) { return hn::Set(DCI(), static_cast<int32_t>(*word)); }

#if HWY_TARGET == HWY_AVX3_DL
// Written out: GCC takes the intrinsic for one of another target than Highway's attributes name.
HWY_INLINE VCI add_dot(VCI sum, VCI codes, const uint32_t* weights) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum.raw) : "v"(codes.raw), "m"(*weights));
  return sum;
}
#else
HWY_INLINE VCI add_pairs(VCI sum, VCI even, VCI odd, const uint32_t* weights) {
  const DCI d;
#if HWY_TARGET == HWY_SCALAR
  const auto half = [](int32_t x, int shift) { return static_cast<int32_t>(static_cast<int16_t>(x >> shift)); };
  const int32_t e = hn::GetLane(even), o = hn::GetLane(odd);
  const auto we = static_cast<int32_t>(weights[0]), wo = static_cast<int32_t>(weights[kCodePack]);
  return hn::Add(sum, hn::Set(d, half(e, 0) * half(we, 0) + half(e, 16) * half(we, 16) + half(o, 0) * half(wo, 0) +
                                     half(o, 16) * half(wo, 16)));
#else
  const hn::Repartition<int16_t, DCI> d16;
  auto rest = hn::Zero(d);
  sum = hn::ReorderWidenMulAccumulate(d, hn::BitCast(d16, even), hn::BitCast(d16, broadcast(weights)), sum, rest);
  sum = hn::ReorderWidenMulAccumulate(d, hn::BitCast(d16, odd), hn::BitCast(d16, broadcast(weights + kCodePack)), sum,
                                      rest);
  return hn::Add(sum, rest);
#endif
}
#endif

/// Where the units of one part of a tile lie.
struct TileUnits {  // stage 0
  const uint8_t* units;
  HWY_INLINE VCI load(int64_t unit) const {
    return hn::LoadU(DCI(), reinterpret_cast<const int32_t*>(units + unit * kTileRows * 4));
  }
};
struct RowUnits {  // stage 1, rows of a list
  const uint8_t* base;
  VCI offsets;  // bytes
  HWY_INLINE VCI load(int64_t unit) const {
    return hn::GatherOffset(DCI(), reinterpret_cast<const int32_t*>(base),
                            hn::Add(offsets, hn::Set(DCI(), static_cast<int32_t>(4 * unit))));
  }
};

template <bool kWide>
HWY_INLINE void add_strip(VCI codes, const uint32_t* weights, VCI (&high)[kHeads], VCI (&low)[kHeads]) {
#if HWY_TARGET == HWY_AVX3_DL
#pragma GCC unroll 8
  for (int64_t i = 0; i < kHeads; ++i) {
    high[i] = add_dot(high[i], codes, weights + i);
    if constexpr (kWide) low[i] = add_dot(low[i], codes, weights + kCodePack + i);
  }
#else
  (void)low;
  const DCI d;
  const auto mask = hn::Set(d, 0x00ff00ff);
  const VCI even = hn::And(codes, mask), odd = hn::And(hn::ShiftRight<8>(codes), mask);
#pragma GCC unroll 8
  for (int64_t i = 0; i < kHeads; ++i) high[i] = add_pairs(high[i], even, odd, weights + i);
#endif
}

/// Adds the strips of n units of w-bit entries.
template <int kWidth, class Units>
HWY_INLINE const uint32_t* add_units(const Units& units, int64_t first, int64_t n, const uint32_t* weights,
                                     VCI (&high)[kHeads], VCI (&low)[kHeads]) {
  constexpr bool kWide = kWidth == 4;
  constexpr int64_t kWords = (kWide || kDot == CodeDot::kPairs ? 2 : 1) * kCodePack;
  const DCI d;
  const auto mask = hn::Set(d, kWidth == 4 ? 0x0f0f0f0f : kWidth == 2 ? 0x03030303 : 0x01010101);
  for (int64_t u = 0; u < n; ++u) {
    VCI word = units.load(first + u);
#pragma GCC unroll 8
    for (int s = 0; s < 8 / kWidth; ++s, weights += kWords) {
      add_strip<kWide>(hn::And(word, mask), weights, high, low);
      word = hn::ShiftRight<kWidth>(word);
    }
  }
  return weights;
}

/// score[i] = offset + sums of heads head .. head + kHeads - 1 of a pack over one part of a tile.
template <class Units>
HWY_INLINE void score_part(const CodeStage& stage, const StageWeights& w, int64_t head, const Units& units,
                           VC (&score)[kHeads]) {
  const DC d;
  const DCI di;
  VCI high[kHeads], low[kHeads], narrow[kHeads];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kHeads; ++i) high[i] = low[i] = narrow[i] = hn::Zero(di);
  add_units<4>(units, 0, stage.n_units[0], w.wide + head, high, low);
  const int64_t n4 = stage.n_units[0], n2 = stage.n_units[1];
  const uint32_t* next = add_units<2>(units, n4, n2, w.narrow + head, narrow, low);
  add_units<1>(units, n4 + n2, stage.n_units[2], next, narrow, low);
#pragma GCC unroll 8
  for (int64_t i = 0; i < kHeads; ++i) {
    VCI wide = high[i];
    if constexpr (kDot == CodeDot::kBytes) wide = hn::Add(hn::ShiftLeft<8>(high[i]), low[i]);
    VC sum =
        hn::MulAdd(hn::ConvertTo(d, narrow[i]), hn::Set(d, w.narrow_scale[head + i]), hn::Set(d, w.offset[head + i]));
    score[i] = hn::MulAdd(hn::ConvertTo(d, wide), hn::Set(d, w.wide_scale[head + i]), sum);
  }
}

/// 2^(byte / 16), infinity for 255: the values of norm_grid().
HWY_INLINE VC norm_values(VCI bytes) {
  const DC d;
  const auto& grid = norm_grid();
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3
  const DCI di;
  const VCI fraction = hn::TableLookupLanes(hn::LoadU(di, reinterpret_cast<const int32_t*>(grid.data())),
                                            hn::IndicesFromVec(di, hn::And(bytes, hn::Set(di, 15))));
  const VC value = hn::BitCast(d, hn::Add(fraction, hn::ShiftLeft<23>(hn::ShiftRight<4>(bytes))));
  return hn::IfThenElse(hn::RebindMask(d, hn::Eq(bytes, hn::Set(di, 255))), hn::Inf(d), value);
#else
  return hn::GatherIndex(d, grid.data(), bytes);
#endif
}

/// Norms of one group for a part of a tile.
HWY_INLINE VC tile_norms(const uint8_t* norms) {
  const DCI di;
  return norm_values(hn::PromoteTo(di, hn::LoadU(hn::Rebind<uint8_t, DCI>(), norms)));
}
HWY_INLINE VC row_norms(const RowUnits& rows, int64_t n_units, int64_t group) {
  const DCI di;
  const VCI word = rows.load(n_units + group / 4);
  const VCI byte = hn::ShiftRightSame(word, static_cast<int>(group % 4 * 8));
  return norm_values(hn::And(byte, hn::Set(di, 255)));
}

/// exp(x); infinity where float has no such number, or x is not one: a bound must not come out too small.
HWY_INLINE VC exp_or_inf(VC x) {
  const DC d;
  const VC most = hn::Set(d, 88.0f);
  return hn::IfThenElse(hn::Le(x, most), hn::Exp(d, hn::Min(x, most)), hn::Inf(d));
}

HWY_INLINE hn::Mask<DC> mask_of(uint32_t bits, int64_t at) {
  const DC d;
  const DCI di;
  alignas(64) static constexpr int32_t kBit[kTileRows] = {1,       1 << 1,  1 << 2,  1 << 3, 1 << 4,  1 << 5,
                                                          1 << 6,  1 << 7,  1 << 8,  1 << 9, 1 << 10, 1 << 11,
                                                          1 << 12, 1 << 13, 1 << 14, 1 << 15};
  const auto bit = hn::LoadU(di, kBit + at);
  return hn::RebindMask(d, hn::TestBit(hn::Set(di, static_cast<int32_t>(bits)), bit));
}

HWY_INLINE uint32_t bits_of(hn::Mask<DC> mask, int64_t at) {
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(DC(), mask, bytes);
  uint32_t bits = bytes[0];
  if constexpr (kPartRows > 8) bits |= uint32_t{bytes[1]} << 8;
  return (bits & ((1u << kPartRows) - 1u)) << at;
}

/// Runs of a sequence: each lies in one page.
struct CodeRuns {
  int64_t per_page = 1, n = 0;
  explicit CodeRuns(const CodePages& pages) {
    if (pages.n_rows == 0) return;
    per_page = ceil_div(ceil_div(pages.page_rows, kTileRows), kRunTiles);
    n = ceil_div(pages.n_rows, pages.page_rows) * per_page;
  }
};

inline int64_t rows_of_page(const CodePages& pages, int64_t page) {
  return std::min(pages.page_rows, pages.n_rows - page * pages.page_rows);
}

/// Tiles of a page from `first` on, at most `most`: the last page may end before its last tile.
inline int64_t tiles_from(const CodePages& pages, int64_t page, int64_t first, int64_t most) {
  return std::clamp<int64_t>(ceil_div(rows_of_page(pages, page), kTileRows) - first, 0, most);
}

/// Rows of a tile that are there and not attended already.
HWY_INLINE uint32_t open_rows(const CodeSet& set, int64_t page, int64_t row) {
  const int64_t n = std::clamp<int64_t>(rows_of_page(set.pages, page) - row, 0, kTileRows);
  const uint32_t there = n >= kTileRows ? 0xffffu : (1u << n) - 1u;
  if (set.kept == nullptr) return there;
  const uint8_t* kept = set.kept + page * set.pages.page_rows + row;
#if HWY_TARGET != HWY_SCALAR
  if (n == kTileRows) {
    const hn::FixedTag<uint8_t, 16> d8;
    uint8_t bytes[8] = {};
    hn::StoreMaskBits(d8, hn::Eq(hn::LoadU(d8, kept), hn::Zero(d8)), bytes);
    return uint32_t{bytes[0]} | uint32_t{bytes[1]} << 8;
  }
#endif
  uint32_t open = 0;
  for (int64_t i = 0; i < n; ++i) open |= uint32_t{kept[i] == 0} << i;
  return open;
}

}  // namespace vestige::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VESTIGE_CODE_SCAN_INL_
