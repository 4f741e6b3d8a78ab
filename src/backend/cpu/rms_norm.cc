#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_ops.h"
#include "base/thread_pool.h"

// foreach_target.h comes first: it compiles this file once a target.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/rms_norm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "backend/cpu/load-inl.h"
#include "backend/cpu/math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

HWY_INLINE float sum_of_squares(const float* x, int64_t n) {
  const D d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  auto a = hn::Zero(d), b = hn::Zero(d);
  int64_t c = 0;
  for (; c + 2 * kLanes <= n; c += 2 * kLanes) {
    const auto u = hn::LoadU(d, x + c), v = hn::LoadU(d, x + c + kLanes);
    a = hn::MulAdd(u, u, a);
    b = hn::MulAdd(v, v, b);
  }
  for (; c < n; c += kLanes) {
    const auto u = c + kLanes <= n ? hn::LoadU(d, x + c) : widen_n(d, x + c, n - c);
    a = hn::MulAdd(u, u, a);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
}

template <class T>
void norm_row(const float* x, const T* weight, const float* gate, int64_t n, float eps, float* out) {
  const D d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  const auto norm = hn::Set(d, 1.0f / std::sqrt(sum_of_squares(x, n) / static_cast<float>(n) + eps));
  for (int64_t c = 0; c < n; c += kLanes) {
    const int64_t rest = n - c;
    const auto load = [&](const auto* p) { return rest >= kLanes ? widen(d, p + c) : widen_n(d, p + c, rest); };
    auto y = hn::Mul(hn::Mul(load(x), norm), load(weight));
    if (gate != nullptr) y = hn::Mul(y, sigmoid(d, load(gate)));
    if (rest >= kLanes) {
      hn::StoreU(y, d, out + c);
    } else {
      store_n(d, y, out + c, rest);
    }
  }
}

void norm_rows(const RmsNormParams& p, int64_t begin, int64_t end) {
  with_element(p.weight.dtype, [&](auto element) {
    for (int64_t i = begin; i < end; ++i) {
      norm_row(p.x.as<float>() + i * p.x.stride[0], p.weight.as<decltype(element)>(),
               p.gate.data == nullptr ? nullptr : p.gate.as<float>() + i * p.gate.stride[0], p.x.dim(1), p.eps,
               p.out.as<float>() + i * p.out.stride[0]);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace vestige::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(norm_rows);

Status rms_norm(const RmsNormParams& p, Stream& stream) {
  const int64_t t = p.x.n_elements() == 0 ? 0 : p.x.dim(0);
  const int64_t rows = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, p.x.dim(1)));  // about 32 KB a piece
  stream.pool()->run((t + rows - 1) / rows, [&](int64_t i, int32_t) {
    HWY_DYNAMIC_DISPATCH(norm_rows)(p, i * rows, std::min(t, (i + 1) * rows));
  });
  return {};
}

}  // namespace vestige::cpu
#endif
