// Blocks of codes to float32 vectors, 32 numbers at a time. Included once per Highway target.

#if defined(VESTIGE_CPU_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESTIGE_CPU_BLOCK_INL_H_
#undef VESTIGE_CPU_BLOCK_INL_H_
#else
#define VESTIGE_CPU_BLOCK_INL_H_
#endif

#include <cstring>

#include "backend/cpu/load-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Numbers of a group, and vectors that they fill. Scalar vectors take one number each.
constexpr int64_t kGroup = 32;
template <class D>
constexpr int kGroupVectors = static_cast<int>(kGroup / static_cast<int64_t>(hn::MaxLanes(D())));

/// Bytes as int32 lanes.
template <class D>
HWY_INLINE auto widen_bytes(D, const uint8_t* p) {
  const hn::Rebind<uint8_t, D> d8;
  const hn::Rebind<int32_t, D> d32;
  return hn::PromoteTo(d32, hn::LoadU(d8, p));
}

// ---- scales of a block, as floats

HWY_INLINE void store_half(const uint8_t* p, float* to) {
  const hn::CappedTag<float, 1> d;
  hn::StoreU(widen(d, reinterpret_cast<const F16*>(p)), d, to);
}

/// to[i] = unit * code[i] for sixteen codes of type T.
template <class T>
HWY_INLINE void scale_sixteen(float unit, const T* code, float* to) {
  const hn::CappedTag<float, 16> d;
  constexpr auto kLanes = static_cast<int>(hn::MaxLanes(hn::CappedTag<float, 16>()));
  const hn::Rebind<T, decltype(d)> d8;
  const hn::Rebind<int32_t, decltype(d)> d32;
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += kLanes) {
    const auto wide = hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, code + i)));
    hn::StoreU(hn::Mul(hn::Set(d, unit), wide), d, to + i);
  }
}

template <class B>
constexpr int64_t kScales = 1;  ///< floats that load_scales writes for a block
template <>
constexpr int64_t kScales<Q4_1> = 2;
template <>
constexpr int64_t kScales<Q4K> = 16;
template <>
constexpr int64_t kScales<Q6K> = 16;

HWY_INLINE void load_scales(Q8_0, const uint8_t* block, float* to) { store_half(block, to); }
HWY_INLINE void load_scales(Q4_0, const uint8_t* block, float* to) { store_half(block, to); }

HWY_INLINE void load_scales(Q4_1, const uint8_t* block, float* to) {
  const hn::CappedTag<float, 2> d;
  constexpr auto kLanes = static_cast<int>(hn::MaxLanes(hn::CappedTag<float, 2>()));
  for (int i = 0; i < 2; i += kLanes) hn::StoreU(widen(d, reinterpret_cast<const F16*>(block) + i), d, to + i);
}

// Six bits each, four bytes at a time: scales and minima of groups 0 to 3 lie in the low bits of the first eight bytes;
// those of groups 4 to 7 have their low four bits in the last four and the upper two on top of the first eight.
HWY_INLINE void load_scales(Q4K, const uint8_t* block, float* to) {
  uint32_t first, second, third;
  std::memcpy(&first, block + 4, 4);
  std::memcpy(&second, block + 8, 4);
  std::memcpy(&third, block + 12, 4);
  const uint32_t six = 0x3f3f3f3f, four = 0x0f0f0f0f, upper = 0x30303030;
  const uint32_t words[4] = {first & six, (third & four) | (first >> 2 & upper), second & six,
                             (third >> 4 & four) | (second >> 2 & upper)};
  uint8_t codes[16];
  std::memcpy(codes, words, 16);
  float units[2];
  load_scales(Q4_1(), block, units);
  scale_sixteen(1.0f, codes, to);
  for (int i = 0; i < 16; ++i) to[i] *= units[i / 8];
}

HWY_INLINE void load_scales(Q6K, const uint8_t* block, float* to) {
  float unit;
  store_half(block + 208, &unit);
  scale_sixteen(unit, reinterpret_cast<const int8_t*>(block + 192), to);
}

// ---- numbers of a group. Every out[v] has the bits of decode_blocks: products of a scale and a code are exact in
// float32 (11 bits of a half, 8 of a scale, 6 of a code at most), so that one fused multiply-add rounds where a product
// and a sum do.

template <class D, class V>
HWY_INLINE void decode_group(Q8_0, D d, const uint8_t* block, const float* scales, int64_t, V* out) {
  const hn::Rebind<int8_t, D> d8;
  const hn::Rebind<int32_t, D> d32;
  const V scale = hn::Set(d, scales[0]);
  const auto* codes = reinterpret_cast<const int8_t*>(block + 2);
#pragma GCC unroll 32
  for (int v = 0; v < kGroupVectors<D>; ++v) {
    const auto code = hn::PromoteTo(d32, hn::LoadU(d8, codes + v * static_cast<int64_t>(hn::MaxLanes(D()))));
    out[v] = hn::Mul(scale, hn::ConvertTo(d, code));
  }
}

/// Turns codes from 0 to 15 (int32 lanes) into value(code as float): looked up where a vector holds all sixteen.
template <class D, class F>
HWY_INLINE auto nibble_decoder(D d, const F& value) {
  if constexpr (hn::MaxLanes(D()) == 16) {
    const auto table = value(hn::Iota(d, 0));
    return [=](auto code) { return hn::TableLookupLanes(table, hn::IndicesFromVec(D(), code)); };
  } else {
    return [=](auto code) { return value(hn::ConvertTo(D(), code)); };
  }
}

/// A group whose number j is the low half of byte j, number j + 16 the high half.
template <class D, class V, class F>
HWY_INLINE void decode_nibbles(D d, const uint8_t* bytes, const F& value, V* out) {
  const auto low = hn::Set(hn::Rebind<int32_t, D>(), 15);
  const auto decode = nibble_decoder(d, value);
  constexpr int kHalf = kGroupVectors<D> / 2;
#pragma GCC unroll 16
  for (int v = 0; v < kHalf; ++v) {
    const auto both = widen_bytes(d, bytes + v * static_cast<int64_t>(hn::MaxLanes(D())));
    out[v] = decode(hn::And(both, low));
    out[v + kHalf] = decode(hn::ShiftRight<4>(both));
  }
}

template <class D, class V>
HWY_INLINE void decode_group(Q4_0, D d, const uint8_t* block, const float* scales, int64_t, V* out) {
  const V scale = hn::Set(d, scales[0]), middle = hn::Set(d, 8.0f);
  decode_nibbles(
      d, block + 2, [=](V code) { return hn::Mul(scale, hn::Sub(code, middle)); }, out);
}

template <class D, class V>
HWY_INLINE void decode_group(Q4_1, D d, const uint8_t* block, const float* scales, int64_t, V* out) {
  const V scale = hn::Set(d, scales[0]), least = hn::Set(d, scales[1]);
  decode_nibbles(
      d, block + 4, [=](V code) { return hn::MulAdd(scale, code, least); }, out);
}

template <class D, class V>
HWY_INLINE void decode_group(Q4K, D d, const uint8_t* block, const float* scales, int64_t group, V* out) {
  const V scale = hn::Set(d, scales[group]), below = hn::Set(d, scales[8 + group]);
  const uint8_t* bytes = block + 16 + group / 2 * kGroup;
  const auto low = hn::Set(hn::Rebind<int32_t, D>(), 15);
  const auto decode = nibble_decoder(d, [=](V code) { return hn::MulSub(scale, code, below); });
#pragma GCC unroll 32
  for (int v = 0; v < kGroupVectors<D>; ++v) {
    const auto both = widen_bytes(d, bytes + v * static_cast<int64_t>(hn::MaxLanes(D())));
    out[v] = decode(group % 2 == 0 ? hn::And(both, low) : hn::ShiftRight<4>(both));
  }
}

template <class D, class V>
HWY_INLINE void decode_group(Q6K, D d, const uint8_t* block, const float* scales, int64_t group, V* out) {
  const hn::Rebind<int32_t, D> d32;
  const int64_t part = group / 4, quarter = group % 4;
  const uint8_t* lower = block + 64 * part + quarter % 2 * kGroup;
  const uint8_t* upper = block + 128 + 32 * part;
  const V scale[2] = {hn::Set(d, scales[2 * group]), hn::Set(d, scales[2 * group + 1])};
  const auto low = hn::Set(d32, 15), two = hn::Set(d32, 0x30), middle = hn::Set(d32, 32);
#pragma GCC unroll 32
  for (int v = 0; v < kGroupVectors<D>; ++v) {
    const int64_t at = v * static_cast<int64_t>(hn::MaxLanes(D()));
    const auto both = widen_bytes(d, lower + at), bits = widen_bytes(d, upper + at);
    const auto four = quarter < 2 ? hn::And(both, low) : hn::ShiftRight<4>(both);
    const auto raised = hn::ShiftRightSame(hn::ShiftLeft<4>(bits), static_cast<int>(2 * quarter));
    const auto code = hn::Sub(hn::Or(four, hn::And(raised, two)), middle);
    out[v] = hn::Mul(scale[at / 16], hn::ConvertTo(d, code));
  }
}

/// f(c, vectors) for each group of a row of whole blocks; it begins at number c.
template <class B, class D, class F>
HWY_INLINE void for_groups(D d, const uint8_t* row, int64_t k, const F& f) {
  for (int64_t c = 0; c < k; c += B::kNumbers, row += B::kBytes) {
    float scales[kScales<B>];
    load_scales(B(), row, scales);
    for (int64_t group = 0; group < B::kNumbers / kGroup; ++group) {
      hn::Vec<D> wide[kGroupVectors<D>];
      decode_group(B(), d, row, scales, group, wide);
      f(c + group * kGroup, wide);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vestige::cpu
HWY_AFTER_NAMESPACE();

#endif
