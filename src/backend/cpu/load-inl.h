// Loads that widen a stored dtype to float32 vectors. Included once per Highway target.

#if defined(VESTIGE_CPU_LOAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESTIGE_CPU_LOAD_INL_H_
#undef VESTIGE_CPU_LOAD_INL_H_
#else
#define VESTIGE_CPU_LOAD_INL_H_
#endif

#include <cstring>

#include "backend/cpu/weight.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> widen(D d, const float* p) {
  return hn::LoadU(d, p);
}

template <class D>
HWY_INLINE hn::Vec<D> widen(D d, const Bf16* p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<uint32_t, D> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

template <class D>
HWY_INLINE hn::Vec<D> widen(D d, const F16* p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::BitCast(half, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p))));
}

// Exponent and mantissa moved to their float32 places read as value * 2^-120, subnormals included.
template <class D>
HWY_INLINE hn::Vec<D> widen(D d, const F8* p) {
  const hn::Rebind<uint8_t, D> d8;
  const hn::Rebind<uint32_t, D> d32;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(p)));
  const auto magnitude = hn::And(bits, hn::Set(d32, 0x7fu));
  const auto sign = hn::ShiftLeft<24>(hn::And(bits, hn::Set(d32, 0x80u)));
  const auto value = hn::Mul(hn::BitCast(d, hn::ShiftLeft<20>(magnitude)), hn::Set(d, 0x1p120f));
  const auto nan = hn::BitCast(d, hn::Set(d32, 0x7fc00000u));
  const auto is_nan = hn::RebindMask(d, hn::Eq(magnitude, hn::Set(d32, 0x7fu)));
  return hn::Or(hn::IfThenElse(is_nan, nan, value), hn::BitCast(d, sign));
}

/// The first `count` < Lanes elements, zeros after them.
template <class D, class T>
HWY_INLINE hn::Vec<D> widen_n(D d, const T* p, int64_t count) {
  // Scalar vectors have no tail; the room past one lane only tells the compiler that nothing overflows.
  T padded[HWY_MAX(hn::MaxLanes(D()), 4)] = {};
  std::memcpy(padded, p, static_cast<size_t>(count) * sizeof(T));
  return widen(d, padded);
}

/// Stores the first `count` < Lanes elements.
template <class D>
HWY_INLINE void store_n(D d, hn::Vec<D> v, float* p, int64_t count) {
  HWY_ALIGN float padded[hn::MaxLanes(D())];
  hn::Store(v, d, padded);
  std::memcpy(p, padded, static_cast<size_t>(count) * sizeof(float));
}

}  // namespace HWY_NAMESPACE
}  // namespace vestige::cpu
HWY_AFTER_NAMESPACE();

#endif
