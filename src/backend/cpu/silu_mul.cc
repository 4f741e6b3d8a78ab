#include <algorithm>

#include "backend/cpu/activation.h"
#include "backend/cpu/cpu_ops.h"
#include "base/thread_pool.h"

// foreach_target.h comes first: it compiles this file once a target.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/silu_mul.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "backend/cpu/load-inl.h"
#include "backend/cpu/math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void silu_mul_one(const float* gate, const float* up, int64_t n, float* out) {
  const hn::ScalableTag<float> d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    hn::StoreU(hn::Mul(silu(d, hn::LoadU(d, gate + c)), hn::LoadU(d, up + c)), d, out + c);
  }
  if (c < n) {
    store_n(d, hn::Mul(silu(d, widen_n(d, gate + c, n - c)), widen_n(d, up + c, n - c)), out + c, n - c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vestige::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(silu_mul_one);

void silu_mul_row(const float* gate, const float* up, int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(silu_mul_one)(gate, up, n, out);
}

Status silu_mul(const SiluMulParams& p, Stream& stream) {
  const int64_t n = p.out.dim(1), t = p.out.n_elements() == 0 ? 0 : p.out.dim(0);
  const int64_t rows = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, n));  // about 32 KB a piece
  stream.pool()->run((t + rows - 1) / rows, [&](int64_t piece, int32_t) {
    for (int64_t i = piece * rows; i < std::min(t, (piece + 1) * rows); ++i) {
      silu_mul_row(p.gate.as<float>() + i * p.gate.stride[0], p.up.as<float>() + i * p.up.stride[0], n,
                   p.out.as<float>() + i * p.out.stride[0]);
    }
  });
  return {};
}

}  // namespace vestige::cpu
#endif
