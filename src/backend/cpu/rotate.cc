#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/scratch.h"
#include "base/thread_pool.h"

// foreach_target.h comes first: it compiles this file once a target.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/rotate.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "backend/cpu/load-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

/// One head whose pairs lie `n` apart. `turn` holds n cosines, then n sines.
void rotate_halves(float* x, const float* turn, int64_t n) {
  const D d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  for (int64_t j = 0; j < n; j += kLanes) {
    const int64_t rest = n - j;
    const auto load = [&](const float* p) { return rest >= kLanes ? hn::LoadU(d, p + j) : widen_n(d, p + j, rest); };
    const auto store = [&](hn::Vec<D> v, float* p) {
      rest >= kLanes ? hn::StoreU(v, d, p + j) : store_n(d, v, p + j, rest);
    };
    const auto a = load(x), b = load(x + n), c = load(turn), s = load(turn + n);
    store(hn::NegMulAdd(b, s, hn::Mul(a, c)), x);
    store(hn::MulAdd(a, s, hn::Mul(b, c)), x + n);
  }
}

/// One head whose pairs are neighbours.
void rotate_neighbours(float* x, const float* turn, int64_t n) {
  const D d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    hn::Vec<D> a, b;
    hn::LoadInterleaved2(d, x + 2 * j, a, b);
    const auto c = hn::LoadU(d, turn + j), s = hn::LoadU(d, turn + n + j);
    hn::StoreInterleaved2(hn::NegMulAdd(b, s, hn::Mul(a, c)), hn::MulAdd(a, s, hn::Mul(b, c)), d, x + 2 * j);
  }
  for (; j < n; ++j) {
    const float a = x[2 * j], b = x[2 * j + 1];
    x[2 * j] = a * turn[j] - b * turn[n + j];
    x[2 * j + 1] = a * turn[n + j] + b * turn[j];
  }
}

void rotate_heads(const RotateParams& p, int64_t i, const float* turn) {
  for (int64_t h = 0; h < p.x.dim(1); ++h) {
    float* x = p.x.as<float>() + i * p.x.stride[0] + h * p.x.stride[1];
    (p.interleaved ? rotate_neighbours : rotate_halves)(x, turn, p.x.dim(2) / 2);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vestige::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(rotate_heads);

namespace {

/// Cosines, then sines, of one position, in double: angles reach far past where float32 code for them is exact.
void fill_turn(const RotateParams& p, int64_t i, float* turn) {
  const int64_t n = p.frequencies.dim(0);
  const auto position = static_cast<float>(p.positions.as<int32_t>()[i]);
  for (int64_t j = 0; j < n; ++j) {
    const auto angle = static_cast<double>(position * p.frequencies.as<float>()[j]);
    turn[j] = static_cast<float>(static_cast<double>(p.scale) * std::cos(angle));
    turn[n + j] = static_cast<float>(static_cast<double>(p.scale) * std::sin(angle));
  }
}

}  // namespace

Status rotate(const RotateParams& p, Stream& stream) {
  const int64_t t = p.x.n_elements() == 0 ? 0 : p.x.dim(0), n_turn = line_floats(p.x.dim(2));
  VESTIGE_ASSIGN(float* const turns, scratch_floats(ScratchSlot::kOp, n_turn * stream.pool()->n_threads()));
  const int64_t rows = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, p.x.dim(1) * p.x.dim(2)));  // 32 KB a piece
  stream.pool()->run((t + rows - 1) / rows, [&](int64_t piece, int32_t thread) {
    float* turn = turns + thread * n_turn;
    for (int64_t i = piece * rows; i < std::min(t, (piece + 1) * rows); ++i) {
      fill_turn(p, i, turn);
      HWY_DYNAMIC_DISPATCH(rotate_heads)(p, i, turn);
    }
  });
  return {};
}

}  // namespace vestige::cpu
#endif
