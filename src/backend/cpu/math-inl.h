// Activations on float32 vectors, to about 2e-7 relative (Highway's exp is within 1 ulp).

#if defined(VESTIGE_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESTIGE_CPU_MATH_INL_H_
#undef VESTIGE_CPU_MATH_INL_H_
#else
#define VESTIGE_CPU_MATH_INL_H_
#endif

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  // exp(88) is finite and its inverse is 6e-39: past that the result is 0 to float32's resolution of any product.
  const V e = hn::Exp(d, hn::Min(hn::Neg(x), hn::Set(d, 88.0f)));
  return hn::Div(one, hn::Add(one, e));
}

template <class D, class V>
HWY_INLINE V silu(D d, V x) {
  return hn::Mul(x, sigmoid(d, x));
}

/// log(1 + exp(x)) without overflow: max(x, 0) + log1p(exp(-|x|)).
template <class D, class V>
HWY_INLINE V softplus(D d, V x) {
  return hn::Add(hn::Max(x, hn::Zero(d)), hn::Log1p(d, hn::Exp(d, hn::Neg(hn::Abs(x)))));
}

}  // namespace HWY_NAMESPACE
}  // namespace vestige::cpu
HWY_AFTER_NAMESPACE();

#endif
