#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/kda_columns.h"
#include "backend/cpu/scratch.h"
#include "base/thread_pool.h"

// foreach_target.h comes first: it compiles this file once a target.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kda.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "backend/cpu/load-inl.h"
#include "backend/cpu/math-inl.h"
// clang-format on

// The plain recurrence for any t. A chunked form of 64 tokens turns it into products of 64 x 64 tiles, which pays on
// hardware with a matrix unit; on a CPU it is 1.4 million multiply-adds a head and chunk (d = 64) against 1.0 million
// here, and no fewer exponentials. Bits therefore do not depend on how a text is cut into calls.

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

HWY_INLINE float unit_scale(const float* x, int64_t n) {
  const D d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  auto sum = hn::Zero(d);
  for (int64_t c = 0; c < n; c += kLanes) {
    const auto v = n - c >= kLanes ? hn::LoadU(d, x + c) : widen_n(d, x + c, n - c);
    sum = hn::MulAdd(v, v, sum);
  }
  return 1.0f / std::sqrt(hn::GetLane(hn::SumOfLanes(d, sum)) + 1e-6f);
}

// What a token needs of the key side, once for all its columns: decay factors, k and q of unit length. d_k floats each.
void prepare(const KdaParams& p, int64_t i, int64_t head, float* dst) {
  const D d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  const int64_t n = p.q.dim(2);
  const auto at = [&](const ConstTensorView& v) { return v.as<float>() + i * v.stride[0] + head * v.stride[1]; };
  const float* q = at(p.q);
  const float* k = at(p.k);
  const float* decay = at(p.decay);
  const auto q_scale = hn::Set(d, unit_scale(q, n) * p.scale), k_scale = hn::Set(d, unit_scale(k, n));
  for (int64_t c = 0; c < n; c += kLanes) {
    const int64_t rest = n - c;
    const auto load = [&](const float* x) { return rest >= kLanes ? hn::LoadU(d, x + c) : widen_n(d, x + c, rest); };
    const auto store = [&](hn::Vec<D> v, float* x) {
      if (rest >= kLanes) {
        hn::StoreU(v, d, x + c);
      } else {
        store_n(d, v, x + c, rest);
      }
    };
    store(hn::Exp(d, load(decay)), dst);
    store(hn::Mul(load(k), k_scale), dst + n);
    store(hn::Mul(load(q), q_scale), dst + 2 * n);
  }
}

// kVectors vectors of state columns over t tokens. Token i's write and its read-out share one pass over the state with
// the error sum (S^T k) of token i + 1, so that the state is loaded and stored once a token.
template <int kVectors, class Tag>
HWY_INLINE void recur(Tag d, const KdaColumns& c) {
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(Tag()));
  using V = hn::Vec<Tag>;
  V old[kVectors];
  for (int v = 0; v < kVectors; ++v) old[v] = hn::Zero(d);
  for (int64_t a = 0; a < c.d_k; ++a) {
    const V ka = hn::Set(d, c.keys[c.d_k + a] * c.keys[a]);
    for (int v = 0; v < kVectors; ++v) {
      old[v] = hn::MulAdd(ka, hn::LoadU(d, c.state + a * c.state_stride + v * kLanes), old[v]);
    }
  }
  for (int64_t i = 0; i < c.t; ++i) {
    const float* key = c.keys + i * 3 * c.d_k;
    const float* next = i + 1 < c.t ? key + 3 * c.d_k : key;  // the last one's sum is not used
    V u[kVectors], read[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const V error = hn::Sub(hn::LoadU(d, c.v + i * c.v_stride + v * kLanes), old[v]);
      u[v] = hn::Mul(hn::Set(d, c.beta[i * c.beta_stride]), error);
      read[v] = hn::Zero(d);
      old[v] = hn::Zero(d);
    }
    for (int64_t a = 0; a < c.d_k; ++a) {
      const V decay = hn::Set(d, key[a]), k = hn::Set(d, key[c.d_k + a]), q = hn::Set(d, key[2 * c.d_k + a]);
      const V next_k = hn::Set(d, next[c.d_k + a] * next[a]);
      float* row = c.state + a * c.state_stride;
      for (int v = 0; v < kVectors; ++v) {
        const V s = hn::MulAdd(k, u[v], hn::Mul(decay, hn::LoadU(d, row + v * kLanes)));
        hn::StoreU(s, d, row + v * kLanes);
        read[v] = hn::MulAdd(q, s, read[v]);
        old[v] = hn::MulAdd(next_k, s, old[v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) hn::StoreU(read[v], d, c.out + i * c.out_stride + v * kLanes);
  }
}

void recur_columns(KdaColumns c, int64_t n) {
  const D d;
  const hn::CappedTag<float, 1> one;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  const auto advance = [&](int64_t count) {
    c.state += count;
    c.v += count;
    c.out += count;
    n -= count;
  };
  for (; n >= 4 * kLanes; advance(4 * kLanes)) recur<4>(d, c);
  for (; n >= 2 * kLanes; advance(2 * kLanes)) recur<2>(d, c);
  for (; n >= kLanes; advance(kLanes)) recur<1>(d, c);
  for (; n >= 1; advance(1)) recur<1>(one, c);
}

}  // namespace HWY_NAMESPACE
}  // namespace vestige::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(prepare);
HWY_EXPORT(recur_columns);

namespace {

// Tokens prepared at a time: 196 KB a head of 64, so that the second pass finds them in the L2 cache.
constexpr int64_t kBlock = 4 * KdaParams::kChunk;

KdaColumns columns_at(const KdaParams& p, int64_t token, int64_t head, int64_t col) {
  const int64_t d_k = p.q.dim(2), d_v = p.v.dim(2);
  return {.state = p.state.as<float>() + head * d_k * d_v + col,
          .state_stride = d_v,
          .d_k = d_k,
          .v = p.v.as<float>() + token * p.v.stride[0] + head * p.v.stride[1] + col,
          .beta = p.beta.as<float>() + token * p.beta.stride[0] + head * p.beta.stride[1],
          .out = p.out.as<float>() + token * p.out.stride[0] + head * p.out.stride[1] + col,
          .v_stride = p.v.stride[0],
          .beta_stride = p.beta.stride[0],
          .out_stride = p.out.stride[0]};
}

}  // namespace

Status kda(const KdaParams& p, Stream& stream) {
  const int64_t t = p.q.dim(0), h = p.q.dim(1), d_k = p.q.dim(2), d_v = p.v.dim(2);
  if (t == 0 || h == 0 || d_v == 0) return {};
  const int64_t block = std::min(t, kBlock), each = line_floats(block * 3 * d_k);
  VESTIGE_ASSIGN(float* const keys, scratch_floats(ScratchSlot::kOp, each * h));
  const auto recur = HWY_DYNAMIC_DISPATCH(recur_columns);
  const auto prepare_token = HWY_DYNAMIC_DISPATCH(prepare);
  ThreadPool& pool = *stream.pool();
  if (t == 1) {
    const int64_t heads = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, d_k * d_v));  // about 4 us a piece
    pool.run((h + heads - 1) / heads, [&](int64_t piece, int32_t) {
      for (int64_t head = piece * heads; head < std::min(h, (piece + 1) * heads); ++head) {
        prepare_token(p, 0, head, keys + head * each);
        KdaColumns c = columns_at(p, 0, head, 0);
        c.t = 1;
        c.keys = keys + head * each;
        recur(c, d_v);
      }
    });
    return {};
  }
  // 64 columns fill four AVX-512 vectors; with few heads 32 share out better.
  const int64_t width = h * d_v >= 16 * 64 ? 64 : 32, slices = (d_v + width - 1) / width;
  for (int64_t begin = 0; begin < t; begin += block) {
    const int64_t count = std::min(block, t - begin), chunks = (count + KdaParams::kChunk - 1) / KdaParams::kChunk;
    pool.run(h * chunks, [&](int64_t i, int32_t) {
      const int64_t head = i / chunks, first = i % chunks * KdaParams::kChunk;
      for (int64_t u = first; u < std::min(count, first + KdaParams::kChunk); ++u) {
        prepare_token(p, begin + u, head, keys + head * each + u * 3 * d_k);
      }
    });
    pool.run(h * slices, [&](int64_t i, int32_t) {
      const int64_t head = i / slices, col = i % slices * width;
      KdaColumns c = columns_at(p, begin, head, col);
      c.t = count;
      c.keys = keys + head * each;
      recur(c, std::min(width, d_v - col));
    });
  }
  return {};
}

}  // namespace vestige::cpu
#endif
