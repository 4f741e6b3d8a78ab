#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_ops.h"
#include "base/half.h"
#include "base/thread_pool.h"

// foreach_target.h comes first: it compiles this file once a target.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kda_gate.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "backend/cpu/load-inl.h"
#include "backend/cpu/math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void decay_row(const float* x, const T* dt_bias, float rate, int64_t n, float* decay) {
  const hn::ScalableTag<float> d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  const auto negative_rate = hn::Set(d, -rate);
  for (int64_t c = 0; c < n; c += kLanes) {
    const int64_t rest = n - c;
    const auto load = [&](const auto* p) { return rest >= kLanes ? widen(d, p + c) : widen_n(d, p + c, rest); };
    const auto y = hn::Mul(negative_rate, softplus(d, hn::Add(load(x), load(dt_bias))));
    if (rest >= kLanes) {
      hn::StoreU(y, d, decay + c);
    } else {
      store_n(d, y, decay + c, rest);
    }
  }
}

void gate_token(const KdaGateParams& p, int64_t i) {
  const int64_t h = p.x.dim(1), d_k = p.x.dim(2);
  for (int64_t head = 0; head < h; ++head) {
    const float a_log =
        p.a_log.dtype == DType::kF32 ? p.a_log.as<float>()[head] : bf16_to_f32(p.a_log.as<uint16_t>()[head]);
    with_element(p.dt_bias.dtype, [&](auto element) {
      decay_row(p.x.as<float>() + i * p.x.stride[0] + head * p.x.stride[1],
                p.dt_bias.as<decltype(element)>() + head * d_k, std::exp(a_log), d_k,
                p.decay.as<float>() + i * p.decay.stride[0] + head * p.decay.stride[1]);
    });
  }
  float* beta = p.beta.as<float>() + i * p.beta.stride[0];
  for (int64_t head = 0; head < h; ++head) beta[head] = 1.0f / (1.0f + std::exp(-beta[head]));
}

}  // namespace HWY_NAMESPACE
}  // namespace vestige::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(gate_token);

Status kda_gate(const KdaGateParams& p, Stream& stream) {
  const int64_t t = p.x.dim(0), n = p.x.dim(1) * p.x.dim(2);
  const int64_t tokens = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, n));
  stream.pool()->run((t + tokens - 1) / tokens, [&](int64_t piece, int32_t) {
    for (int64_t i = piece * tokens; i < std::min(t, (piece + 1) * tokens); ++i) {
      HWY_DYNAMIC_DISPATCH(gate_token)(p, i);
    }
  });
  return {};
}

}  // namespace vestige::cpu
#endif
