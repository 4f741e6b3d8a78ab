#include <algorithm>
#include <cstring>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/scratch.h"
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

using D = hn::ScalableTag<float>;
constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

// taps [width, kLanes] of `count` channels from weight, at most kLanes rows of `width`; rows [kLanes, width] is room.
template <class T>
void turn_taps(const T* weight, int64_t count, int64_t width, float* rows, float* taps) {
  const D d;
  const int64_t n = count * width;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(widen(d, weight + i), d, rows + i);
  if (i < n) store_n(d, widen_n(d, weight + i, n - i), rows + i, n - i);
  if (width == 4 && count == kLanes) {  // one by one they would take ten times as long as a token's convolution
    hn::Vec<D> a, b, c, e;
    hn::LoadInterleaved4(d, rows, a, b, c, e);
    hn::StoreU(a, d, taps);
    hn::StoreU(b, d, taps + kLanes);
    hn::StoreU(c, d, taps + 2 * kLanes);
    hn::StoreU(e, d, taps + 3 * kLanes);
    return;
  }
  for (int64_t c = 0; c < count; ++c) {
    for (int64_t j = 0; j < width; ++j) taps[j * kLanes + c] = rows[c * width + j];
  }
}

int64_t room_floats(int64_t width) { return 2 * width * kLanes; }

// Tokens [begin, end) of all channels, a vector of them at a time.
void conv_tokens(const ShortConvParams& p, int64_t begin, int64_t end, float* room) {
  const D d;
  const int64_t n = p.x.dim(1), width = p.weight.dim(1);
  float* const taps = room + width * kLanes;
  const auto source = [&](int64_t u) {
    return u >= 0 ? p.x.as<float>() + u * p.x.stride[0]
                  : static_cast<const float*>(p.state.as<float>() + (width - 1 + u) * p.state.stride[0]);
  };
  for (int64_t c = 0; c < n; c += kLanes) {
    const int64_t count = std::min(kLanes, n - c);
    with_element(p.weight.dtype, [&](auto element) {
      turn_taps(p.weight.as<decltype(element)>() + c * width, count, width, room, taps);
    });
    for (int64_t i = begin; i < end; ++i) {
      auto sum = hn::Zero(d);
      for (int64_t j = 0; j < width; ++j) {
        const float* x = source(i - width + 1 + j) + c;
        sum =
            hn::MulAdd(hn::LoadU(d, taps + j * kLanes), count == kLanes ? hn::LoadU(d, x) : widen_n(d, x, count), sum);
      }
      float* out = p.out.as<float>() + i * p.out.stride[0] + c;
      if (count == kLanes) {
        hn::StoreU(silu(d, sum), d, out);
      } else {
        store_n(d, silu(d, sum), out, count);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vestige::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(room_floats);
HWY_EXPORT(conv_tokens);

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
  const int64_t t = p.x.dim(0), n = p.x.dim(1);
  if (t == 0 || n == 0) return {};
  ThreadPool& pool = *stream.pool();
  const int64_t each = line_floats(HWY_DYNAMIC_DISPATCH(room_floats)(p.weight.dim(1)));
  VESTIGE_ASSIGN(float* const room, scratch_floats(ScratchSlot::kOp, each * pool.n_threads()));
  const int64_t tokens = std::max<int64_t>(1, 8192 / n);
  pool.run((t + tokens - 1) / tokens, [&](int64_t piece, int32_t thread) {
    HWY_DYNAMIC_DISPATCH(conv_tokens)(p, piece * tokens, std::min(t, (piece + 1) * tokens), room + each * thread);
  });
  advance_state(p);
  return {};
}

}  // namespace vestige::cpu
#endif
