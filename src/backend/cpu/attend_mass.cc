#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/row_scores.h"
#include "backend/cpu/tiles.h"
#include "base/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attend_mass.cc"
#include "hwy/foreach_target.h"
// After foreach_target: compiled once a target.
#include "backend/cpu/row_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu::HWY_NAMESPACE {
namespace {

/// Scores that one thread holds, 32 MB: a tile of queries against every row they see, so that each score is computed
/// once. Longer sequences get fewer queries a tile, down to kFewest.
constexpr int64_t kScores = int64_t{1} << 23;
constexpr int64_t kFewest = 24;
/// Terms of a sum of weights that are added in float32 before float64 takes over.
constexpr int64_t kRun = 512;

/// Sizes and memory of one call.
struct Work {
  const AttendMassParams* p = nullptr;
  int64_t n = 0, h = 0, d = 0, n_rows = 0;  // n queries, heads counted
  int64_t tile = 0;                         // queries of one
  int64_t stride = 0;                       // floats of a query's scores
  float* scores = nullptr;                  // [n_threads, tile, stride]
  float* packs = nullptr;                   // [n_threads, n_pack]
  double* sums = nullptr;                   // [n_threads, n_rows]: of one tile, whole numbers
  int64_t* mass = nullptr;                  // [n_threads, n_rows]
  float* peak = nullptr;                    // [n_threads, n_rows]

  int64_t n_pack() const { return gemm_scratch_floats(d); }
  int64_t n_seen(int64_t query) const { return std::min(n_rows, p->first_position + query / h + 1); }
};

/// Scores [n] of one query to exp(scale s - max) in place; returns the inverse of their sum. Past n, up to a whole
/// vector, they become 0.
HWY_INLINE float weigh(float* s, int64_t n, float scale) {
  const DF d;
  const int64_t padded = round_up(n, kLanes);
  const float inf = std::numeric_limits<float>::infinity();
  std::fill(s + n, s + padded, -inf);
  VF best = hn::Set(d, -inf);
  for (int64_t u = 0; u < padded; u += kLanes) {
    const VF x = hn::Mul(hn::LoadU(d, s + u), hn::Set(d, scale));
    hn::StoreU(x, d, s + u);
    best = hn::Max(best, x);
  }
  const VF base = hn::Set(d, hn::GetLane(hn::MaxOfLanes(d, best)));
  double total = 0;
  for (int64_t begin = 0; begin < padded; begin += kRun) {
    VF sum = hn::Zero(d);
    for (int64_t u = begin; u < std::min(begin + kRun, padded); u += kLanes) {
      const VF e = exp_nonpositive(d, hn::Sub(hn::LoadU(d, s + u), base));
      hn::StoreU(e, d, s + u);
      sum = hn::Add(sum, e);
    }
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  return static_cast<float>(1.0 / total);
}

/// sums[u] += round(factor * weight / kMassUnit), exactly; peak[u] likewise.
HWY_INLINE void add_weights(const float* weight, int64_t n, float factor, double* sums, float* peak) {
  const DF d;
  const float units = static_cast<float>(1.0 / kMassUnit);
  HWY_ALIGN float whole[kLanes];
  for (int64_t u = 0; u < n; u += kLanes) {
    VF w = hn::Mul(hn::LoadU(d, weight + u), hn::Set(d, factor));
    w = hn::IfThenElseZero(hn::Ge(w, hn::Zero(d)), w);  // what is not a number counts as 0
    if (peak != nullptr) hn::StoreU(hn::Max(hn::LoadU(d, peak + u), w), d, peak + u);
    if (sums == nullptr) continue;
    const VF product = hn::Mul(w, hn::Set(d, units));  // from 2^23 on every float is whole
    hn::Store(hn::IfThenElse(hn::Lt(product, hn::Set(d, 0x1p23f)), hn::Round(product), product), d, whole);
#if HWY_TARGET == HWY_SCALAR
    sums[u] += static_cast<double>(whole[0]);
#else
    const hn::Repartition<double, DF> d64;
    for (int64_t i = 0; i < kLanes; i += static_cast<int64_t>(hn::MaxLanes(d64))) {
      const auto part = hn::PromoteTo(d64, hn::LoadU(hn::Rebind<float, decltype(d64)>(), whole + i));
      hn::StoreU(hn::Add(hn::LoadU(d64, sums + u + i), part), d64, sums + u + i);
    }
#endif
  }
}

HWY_NOINLINE void attend_tile(const Work& w, int64_t tile, int32_t thread) {
  const AttendMassParams& p = *w.p;
  const int64_t begin = tile * w.tile, end = std::min(begin + w.tile, w.n), most = w.n_seen(end - 1);
  float* const scores = w.scores + thread * w.tile * w.stride;
  score_rows_of({.q = p.q.as<float>() + begin * w.d, .stride = w.d, .n = end - begin}, p.rows, 0, most,
                {scores, w.stride, w.packs + thread * w.n_pack()});
  double* const sums = p.mass.rank > 0 ? w.sums + thread * w.stride : nullptr;
  float* const peak = p.peak.rank > 0 ? w.peak + thread * w.stride : nullptr;
  for (int64_t i = begin; i < end; ++i) {
    float* const s = scores + (i - begin) * w.stride;
    const int64_t n = w.n_seen(i);
    const float factor = weigh(s, n, p.scale);
    add_weights(s, n, factor, sums, peak);
  }
  if (sums == nullptr) return;
  int64_t* const mass = w.mass + thread * w.stride;
  for (int64_t u = 0; u < most; ++u) mass[u] += static_cast<int64_t>(sums[u]);
  std::fill_n(sums, most, 0.0);
}

Status observe(const AttendMassParams& p, Stream& stream) {
  Work w;
  w.p = &p;
  w.h = p.q.dim(1);
  w.n = p.q.dim(0) * w.h;
  w.d = p.q.dim(2);
  w.n_rows = p.rows.n_rows;
  if (w.n == 0 || w.n_rows == 0) return {};
  w.stride = round_up(w.n_rows, 16) + 16;  // not a power of two: queries of a tile would share cache sets
  w.tile = std::min(w.n, std::clamp(kScores / w.stride, kFewest, kGemmRows));
  const int64_t n_threads = stream.n_threads(), n_columns = n_threads * w.stride;
  VESTIGE_ASSIGN(float* const memory, scratch_floats(ScratchSlot::kOp, n_threads * (w.tile * w.stride + w.n_pack()) +
                                                                           5 * n_columns + 16 * 5));
  Slices slices(memory);
  w.scores = slices.take(n_threads * w.tile * w.stride);
  w.packs = slices.take(n_threads * w.n_pack());
  w.sums = reinterpret_cast<double*>(slices.take(2 * n_columns));
  w.mass = reinterpret_cast<int64_t*>(slices.take(2 * n_columns));
  w.peak = slices.take(n_columns);
  std::fill_n(w.sums, n_columns, 0.0);
  std::fill_n(w.mass, n_columns, int64_t{0});
  std::fill_n(w.peak, n_columns, 0.0f);
  stream.pool()->run(ceil_div(w.n, w.tile), [&](int64_t tile, int32_t thread) { attend_tile(w, tile, thread); });
  // Sums of whole numbers and maxima: which thread did which tile does not show.
  for (int64_t t = 0; t < n_threads; ++t) {
    for (int64_t u = 0; u < w.n_rows; ++u) {
      if (p.mass.rank > 0) p.mass.as<int64_t>()[u] += w.mass[t * w.stride + u];
      if (p.peak.rank > 0) p.peak.as<float>()[u] = std::max(p.peak.as<float>()[u], w.peak[t * w.stride + u]);
    }
  }
  return {};
}

}  // namespace
}  // namespace vestige::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(observe);

Status attend_mass(const AttendMassParams& p, Stream& stream) { return HWY_DYNAMIC_DISPATCH(observe)(p, stream); }

}  // namespace vestige::cpu
#endif  // HWY_ONCE
