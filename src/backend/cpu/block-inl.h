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

HWY_INLINE float half(const uint8_t* p) {
  return hn::GetLane(widen(hn::CappedTag<float, 1>(), reinterpret_cast<const F16*>(p)));
}

/// Bytes as int32 lanes.
template <class D>
HWY_INLINE auto widen_bytes(D, const uint8_t* p) {
  const hn::Rebind<uint8_t, D> d8;
  const hn::Rebind<int32_t, D> d32;
  return hn::PromoteTo(d32, hn::LoadU(d8, p));
}

// Every out[v] below has the bits of decode_blocks: products of a scale and a code are exact in float32 (11 bits of a
// half, 8 of a scale, 6 of a code at most), so that one fused multiply-add rounds where a product and a sum do.

template <class D, class V>
HWY_INLINE void decode_group(Q8_0, D d, const uint8_t* block, int64_t, V* out) {
  const hn::Rebind<int8_t, D> d8;
  const hn::Rebind<int32_t, D> d32;
  const V scale = hn::Set(d, half(block));
  const auto* codes = reinterpret_cast<const int8_t*>(block + 2);
#pragma GCC unroll 32
  for (int v = 0; v < kGroupVectors<D>; ++v) {
    const auto code = hn::PromoteTo(d32, hn::LoadU(d8, codes + v * static_cast<int64_t>(hn::MaxLanes(D()))));
    out[v] = hn::Mul(scale, hn::ConvertTo(d, code));
  }
}

/// Two halves that lie side by side, one in every lane of each.
template <class D, class V>
HWY_INLINE void two_halves(D d, const uint8_t* p, V* first, V* second) {
  const hn::CappedTag<float, 2> d2;
  if constexpr (hn::MaxLanes(hn::CappedTag<float, 2>()) == 2) {
    const auto both = widen(d2, reinterpret_cast<const F16*>(p));
    *first = hn::Set(d, hn::GetLane(both));
    *second = hn::Set(d, hn::ExtractLane(both, 1));
  } else {
    *first = hn::Set(d, half(p));
    *second = hn::Set(d, half(p + 2));
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
HWY_INLINE void decode_group(Q4_0, D d, const uint8_t* block, int64_t, V* out) {
  const V scale = hn::Set(d, half(block)), middle = hn::Set(d, 8.0f);
  decode_nibbles(
      d, block + 2, [=](V code) { return hn::Mul(scale, hn::Sub(code, middle)); }, out);
}

template <class D, class V>
HWY_INLINE void decode_group(Q4_1, D d, const uint8_t* block, int64_t, V* out) {
  V scale, least;
  two_halves(d, block, &scale, &least);
  decode_nibbles(
      d, block + 4, [=](V code) { return hn::MulAdd(scale, code, least); }, out);
}

template <class D, class V>
HWY_INLINE void decode_group(Q4K, D d, const uint8_t* block, int64_t group, V* out) {
  const hn::Rebind<int32_t, D> d32;
  const uint8_t* packed = block + 4;
  int s, m;
  if (group < 4) {
    s = packed[group] & 63;
    m = packed[group + 4] & 63;
  } else {
    s = (packed[group + 4] & 15) | packed[group - 4] >> 6 << 4;
    m = packed[group + 4] >> 4 | packed[group] >> 6 << 4;
  }
  const V scale = hn::Set(d, half(block) * static_cast<float>(s));
  const V below = hn::Set(d, half(block + 2) * static_cast<float>(m));
  const uint8_t* bytes = block + 16 + group / 2 * kGroup;
  const auto low = hn::Set(d32, 15);
  const auto decode = nibble_decoder(d, [=](V code) { return hn::MulSub(scale, code, below); });
  const int shift = static_cast<int>(group % 2) * 4;
#pragma GCC unroll 32
  for (int v = 0; v < kGroupVectors<D>; ++v) {
    const auto both = widen_bytes(d, bytes + v * static_cast<int64_t>(hn::MaxLanes(D())));
    out[v] = decode(hn::And(hn::ShiftRightSame(both, shift), low));
  }
}

template <class D, class V>
HWY_INLINE void decode_group(Q6K, D d, const uint8_t* block, int64_t group, V* out) {
  const hn::Rebind<int32_t, D> d32;
  const int64_t part = group / 4, quarter = group % 4;
  const uint8_t* lower = block + 64 * part + quarter % 2 * kGroup;
  const uint8_t* upper = block + 128 + 32 * part;
  const auto* scales = reinterpret_cast<const int8_t*>(block + 192 + 2 * group);
  const float unit = half(block + 208);
  const V scale[2] = {hn::Set(d, unit * static_cast<float>(scales[0])),
                      hn::Set(d, unit * static_cast<float>(scales[1]))};
  const auto low = hn::Set(d32, 15), two = hn::Set(d32, 3), middle = hn::Set(d32, 32);
  const int low_shift = quarter < 2 ? 0 : 4, up_shift = static_cast<int>(2 * quarter);
#pragma GCC unroll 32
  for (int v = 0; v < kGroupVectors<D>; ++v) {
    const int64_t at = v * static_cast<int64_t>(hn::MaxLanes(D()));
    const auto four = hn::And(hn::ShiftRightSame(widen_bytes(d, lower + at), low_shift), low);
    const auto high = hn::And(hn::ShiftRightSame(widen_bytes(d, upper + at), up_shift), two);
    const auto code = hn::Sub(hn::Or(four, hn::ShiftLeft<4>(high)), middle);
    out[v] = hn::Mul(scale[at / 16], hn::ConvertTo(d, code));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vestige::cpu
HWY_AFTER_NAMESPACE();

#endif
