#include <algorithm>
#include <cstring>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/scratch.h"
#include "backend/cpu/widen.h"
#include "base/thread_pool.h"

// foreach_target.h comes first: it compiles this file once a target.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/short_conv.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "backend/cpu/load-inl.h"
#include "backend/cpu/math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// rows [n, width] to taps [width, n]: a token has four taps a channel to multiply, so turning them one by one would
// cost ten times what the convolution does.
void turn_taps(const float* rows, int64_t n, int64_t width, float* taps) {
  const hn::ScalableTag<float> d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  int64_t c = 0;
  for (; width == 4 && c + kLanes <= n; c += kLanes) {
    hn::Vec<hn::ScalableTag<float>> tap[4];
    hn::LoadInterleaved4(d, rows + c * 4, tap[0], tap[1], tap[2], tap[3]);
    for (int64_t j = 0; j < 4; ++j) hn::StoreU(tap[j], d, taps + j * n + c);
  }
  for (; c < n; ++c) {
    for (int64_t j = 0; j < width; ++j) taps[j * n + c] = rows[c * width + j];
  }
}

// Token i of all channels; taps [width, n] is the weight turned so that channels lie side by side.
void conv_token(const ShortConvParams& p, const float* taps, int64_t i) {
  const hn::ScalableTag<float> d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  const int64_t n = p.x.dim(1), width = p.weight.dim(1);
  float* out = p.out.as<float>() + i * p.out.stride[0];
  const auto source = [&](int64_t j) {
    const int64_t u = i - width + 1 + j;
    return u >= 0 ? p.x.as<float>() + u * p.x.stride[0]
                  : static_cast<const float*>(p.state.as<float>() + (width - 1 + u) * p.state.stride[0]);
  };
  for (int64_t c = 0; c < n; c += kLanes) {
    const int64_t rest = n - c;
    const auto load = [&](const float* row) {
      return rest >= kLanes ? hn::LoadU(d, row + c) : widen_n(d, row + c, rest);
    };
    auto sum = hn::Zero(d);
    for (int64_t j = 0; j < width; ++j) sum = hn::MulAdd(load(taps + j * n), load(source(j)), sum);
    const auto y = silu(d, sum);
    if (rest >= kLanes) {
      hn::StoreU(y, d, out + c);
    } else {
      store_n(d, y, out + c, rest);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vestige::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(turn_taps);
HWY_EXPORT(conv_token);

namespace {

// The last width - 1 inputs, oldest first; with t < width - 1 the youngest of the old ones move up.
void advance_state(const ShortConvParams& p) {
  const int64_t t = p.x.dim(0), n = p.x.dim(1), kept = p.weight.dim(1) - 1;
  for (int64_t i = 0; i < kept; ++i) {
    const int64_t u = t - kept + i;
    const float* src = u >= 0 ? p.x.as<float>() + u * p.x.stride[0]
                              : static_cast<const float*>(p.state.as<float>() + (kept + u) * p.state.stride[0]);
    std::memmove(p.state.as<float>() + i * p.state.stride[0], src, static_cast<size_t>(n) * sizeof(float));
  }
}

}  // namespace

Status short_conv(const ShortConvParams& p, Stream& stream) {
  const int64_t t = p.x.dim(0), n = p.x.dim(1), width = p.weight.dim(1);
  if (t == 0 || n == 0) return {};
  VESTIGE_ASSIGN(float* const taps, scratch_floats(ScratchSlot::kOp, 2 * width * n));
  float* const rows = taps + width * n;
  Weight whole = Weight::of(p.weight);  // dense: one long row
  whole.n = 1;
  whole.k = whole.stride = n * width;
  widen_rows(whole, 0, 1, rows, whole.k);
  HWY_DYNAMIC_DISPATCH(turn_taps)(rows, n, width, taps);
  const int64_t tokens = std::max<int64_t>(1, 8192 / n);
  stream.pool()->run((t + tokens - 1) / tokens, [&](int64_t piece, int32_t) {
    for (int64_t i = piece * tokens; i < std::min(t, (piece + 1) * tokens); ++i) {
      HWY_DYNAMIC_DISPATCH(conv_token)(p, taps, i);
    }
  });
  advance_state(p);
  return {};
}

}  // namespace vestige::cpu
#endif
