#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/tiles.h"
#include "backend/ops/row_access.h"
#include "base/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/scan_archive.cc"
#include "hwy/foreach_target.h"
// After foreach_target: compiled once a target.
#include "backend/cpu/row_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kTile = 32;
constexpr int64_t kRunRows = 512;

/// Sizes and memory of one call.
struct Work {
  const ScanArchiveParams* p = nullptr;
  int64_t h = 0, n_groups = 0, d_content = 0, d_branch = 0, rank = 0;
  int64_t n_branch = 0, n_sketch = 0;  // blocks
  bool split_branch = false;
  float* q = nullptr;          // [b, n_groups, n_branch + n_sketch, kGroup, kBlock]
  float* cert = nullptr;       // [b, n_groups, kGroup]: what one unit of residual adds to the score
  float* threshold = nullptr;  // [b, n_groups, kGroup], +inf where there is no head
  float* rest = nullptr;       // [b, h, d_content + rank]: residual and sketch of each query
  int32_t* fired = nullptr;    // [runs, kRunRows]
  int32_t* n_fired = nullptr;  // [runs]
  float* tiles = nullptr;      // [n_threads, kTile, padded row], only if rows do not fill whole blocks
  std::vector<int64_t> first_run;

  int64_t q_size() const { return (n_branch + n_sketch) * kGroup * kBlock; }
  bool padded() const { return n_branch * kBlock != d_branch || n_sketch * kBlock != rank; }
  int64_t tile_floats() const { return padded() ? kTile * (n_branch + n_sketch) * kBlock : 0; }
};

/// Double precision: the sketch of a query must round to the same f16 whatever adds it up.
HWY_INLINE double dot_f64(const float* a, const float* b, int64_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto product = [&](int64_t k, hn::Vec<decltype(d)> sum) HWY_ATTR {
    return hn::MulAdd(hn::PromoteTo(d, hn::LoadU(df, a + k)), hn::PromoteTo(d, hn::LoadU(df, b + k)), sum);
  };
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t k = 0;
  for (; k + 4 * lanes <= n; k += 4 * lanes) {
    s0 = product(k, s0);
    s1 = product(k + lanes, s1);
    s2 = product(k + 2 * lanes, s2);
    s3 = product(k + 3 * lanes, s3);
  }
  double total = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; k < n; ++k) total += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  return total;
}

/// rest = q - V^T x, a few vectors of columns at a time so that their sums stay in registers.
HWY_INLINE void subtract_projection(const ConstTensorView& basis, const float* x, const float* q, float* rest) {
  const DF d;
  const int64_t r = basis.dim(0), n = basis.dim(1), step = 4 * kLanes;
  const float* v = basis.as<float>();
  int64_t k = 0;
  for (; k + step <= n; k += step) {
    VF s0 = hn::LoadU(d, q + k), s1 = hn::LoadU(d, q + k + kLanes);
    VF s2 = hn::LoadU(d, q + k + 2 * kLanes), s3 = hn::LoadU(d, q + k + 3 * kLanes);
    for (int64_t j = 0; j < r; ++j) {
      const VF xj = hn::Set(d, x[j]);
      const float* row = v + j * n + k;
      s0 = hn::NegMulAdd(xj, hn::LoadU(d, row), s0);
      s1 = hn::NegMulAdd(xj, hn::LoadU(d, row + kLanes), s1);
      s2 = hn::NegMulAdd(xj, hn::LoadU(d, row + 2 * kLanes), s2);
      s3 = hn::NegMulAdd(xj, hn::LoadU(d, row + 3 * kLanes), s3);
    }
    hn::StoreU(s0, d, rest + k);
    hn::StoreU(s1, d, rest + k + kLanes);
    hn::StoreU(s2, d, rest + k + 2 * kLanes);
    hn::StoreU(s3, d, rest + k + 3 * kLanes);
  }
  for (; k < n; ++k) {
    rest[k] = q[k];
    for (int64_t j = 0; j < r; ++j) rest[k] -= x[j] * v[j * n + k];
  }
}

/// Rounded branch and sketch of one head's query into its image, and its share of the certificate.
HWY_NOINLINE void prepare_head(const Work& w, int64_t b, int64_t head) {
  const ScanArchiveParams& p = *w.p;
  const ScanSet& set = p.sets[static_cast<size_t>(b)];
  const float* q = p.q.as<float>() + (b * w.h + head) * p.q.dim(2);
  const int64_t group = b * w.n_groups + head / kGroup, in_group = head % kGroup;
  float* slot = w.q + group * w.q_size() + in_group * kBlock;
  auto at = [](bool split, int64_t k) { return k / kBlock * kGroup * kBlock + place(split, k % kBlock); };
  for (int64_t k = 0; k < w.d_branch; ++k) {
    const float x = q[w.d_content + k];
    slot[at(w.split_branch, k)] = set.pages.branch_dtype == DType::kBF16 ? bf16_to_f32(f32_to_bf16(x)) : x;
  }
  slot += w.n_branch * kGroup * kBlock;
  float* rest = w.rest + (b * w.h + head) * (w.d_content + w.rank);
  float* sketch = rest + w.d_content;
  bool fits = true;
  for (int64_t j = 0; j < w.rank; ++j) {
    sketch[j] = static_cast<float>(dot_f64(set.basis.as<float>() + j * w.d_content, q, w.d_content));
    slot[at(false, j)] = f16_to_f32(f32_to_f16(sketch[j]));
    fits = fits && std::isfinite(slot[at(false, j)]);
  }
  subtract_projection(set.basis, sketch, q, rest);
  const double square = w.d_content > w.rank ? dot_f64(rest, rest, w.d_content) : 0.0;
  const double width = static_cast<double>(std::max<int64_t>(1, w.d_content - w.rank));
  const double cert = static_cast<double>(set.z) * static_cast<double>(p.scale) * std::sqrt(square / width);
  w.cert[group * kGroup + in_group] = fits ? static_cast<float>(cert) : std::numeric_limits<float>::quiet_NaN();
  w.threshold[group * kGroup + in_group] = p.threshold.as<float>()[b * w.h + head];
}

template <class Branch>
struct Tile {
  const typename Branch::Type* branch[kTile];
  const uint16_t* sketch[kTile];
  float residual[kTile];
};

template <class Branch>
HWY_INLINE void find_rows(const Work& w, const RecallPages& pages, int64_t begin, int64_t n, int32_t thread,
                          Tile<Branch>& tile) {
  using T = typename Branch::Type;
  int64_t page = begin / pages.page_rows, in = begin % pages.page_rows;
  for (int64_t t = 0; t < n; ++t, ++in) {
    if (in == pages.page_rows) {
      in = 0;
      ++page;
    }
    tile.branch[t] = w.d_branch > 0 ? static_cast<const T*>(pages.branch[page]) + in * w.d_branch : nullptr;
    tile.sketch[t] = static_cast<const uint16_t*>(pages.sketch[page]) + in * w.rank;
    tile.residual[t] = static_cast<const float*>(pages.residual[page])[in];
    if (!w.padded()) continue;
    float* copy = w.tiles + thread * w.tile_floats() + t * (w.n_branch + w.n_sketch) * kBlock;
    std::fill_n(copy, (w.n_branch + w.n_sketch) * kBlock, 0.0f);
    T* branch = reinterpret_cast<T*>(copy);
    uint16_t* sketch = reinterpret_cast<uint16_t*>(copy + w.n_branch * kBlock);
    if (w.d_branch > 0) std::copy_n(tile.branch[t], w.d_branch, branch);
    std::copy_n(tile.sketch[t], w.rank, sketch);
    tile.branch[t] = branch;
    tile.sketch[t] = sketch;
  }
}

/// hit[t] |= some head of the group passes its threshold on row t.
HWY_INLINE void compare(const float* s, const float* residual, int64_t n, const float* cert, const float* threshold,
                        float scale, uint8_t* hit) {
  const DG d;
  for (int64_t i = 0; i < kGroup; i += kGroupLanes) {
    const auto c = hn::LoadU(d, cert + i), limit = hn::LoadU(d, threshold + i), factor = hn::Set(d, scale);
    const auto open = hn::Ne(limit, hn::Inf(d));
    for (int64_t t = 0; t < n; ++t) {
      const auto idx = hn::Mul(hn::LoadU(d, s + t * kGroup + i), factor);
      const auto score = hn::MulAdd(c, hn::Set(d, residual[t]), idx);
      // Not above, but "not at or below": a score that is not a number fires.
      if (!hn::AllFalse(d, hn::AndNot(hn::Le(score, limit), open))) hit[t] = 1;
    }
  }
}

template <class Branch>
HWY_NOINLINE void scan_run(const Work& w, int64_t run, int32_t thread) {
  const auto after = std::upper_bound(w.first_run.begin(), w.first_run.end(), run);
  const int64_t b = after - w.first_run.begin() - 1;
  const ScanSet& set = w.p->sets[static_cast<size_t>(b)];
  const int64_t begin = (run - w.first_run[static_cast<size_t>(b)]) * kRunRows;
  const int64_t end = std::min(begin + kRunRows, set.pages.n_rows);
  int32_t* fired = w.fired + run * kRunRows;
  int32_t n_fired = 0;
  Tile<Branch> tile;
  alignas(64) float s[kTile * kGroup];
  for (int64_t u = begin; u < end; u += kTile) {
    const int64_t n = std::min(kTile, end - u);
    uint8_t hit[kTile] = {};
    find_rows(w, set.pages, u, n, thread, tile);
    const TileRows<Branch, RowF16> rows = {tile.branch, tile.sketch, w.n_branch, w.n_sketch};
    for (int64_t group = b * w.n_groups; group < (b + 1) * w.n_groups; ++group) {
      dot_rows(rows, n, w.q + group * w.q_size(), s);
      compare(s, tile.residual, n, w.cert + group * kGroup, w.threshold + group * kGroup, w.p->scale, hit);
    }
    for (int64_t t = 0; t < n; ++t) {
      if (hit[t] != 0 && (set.kept == nullptr || set.kept[u + t] == 0)) fired[n_fired++] = static_cast<int32_t>(u + t);
    }
  }
  w.n_fired[run] = n_fired;
}

/// Joins the runs of each sequence in order.
void collect(const Work& w) {
  const ScanArchiveParams& p = *w.p;
  const int64_t capacity = p.ids.dim(1);
  for (int64_t b = 0; b < p.q.dim(0); ++b) {
    int64_t total = 0;
    for (int64_t run = w.first_run[static_cast<size_t>(b)]; run < w.first_run[static_cast<size_t>(b + 1)]; ++run) {
      const int64_t n = std::min<int64_t>(w.n_fired[run], std::max<int64_t>(0, capacity - total));
      std::copy_n(w.fired + run * kRunRows, n, p.ids.as<int32_t>() + b * capacity + std::min(total, capacity));
      total += w.n_fired[run];
    }
    p.n_fired.as<int32_t>()[b] = static_cast<int32_t>(total);
    p.n_ids.as<int32_t>()[b] = static_cast<int32_t>(std::min(total, capacity));
  }
}

template <class Branch>
Status scan_sets(Work& w, Stream& stream) {
  const ScanArchiveParams& p = *w.p;
  const int64_t b = p.q.dim(0), n_runs = w.first_run.back(), n_heads = b * w.n_groups * kGroup;
  const int64_t n_q = b * w.n_groups * w.q_size(), n_rest = b * w.h * (w.d_content + w.rank);
  const int64_t n_tiles = stream.n_threads() * w.tile_floats();
  VESTIGE_ASSIGN(float* const memory,
                 scratch_floats(ScratchSlot::kOp, line_floats(n_q) + 2 * line_floats(n_heads) + line_floats(n_rest) +
                                                      line_floats(n_tiles) + n_runs * kRunRows + line_floats(n_runs)));
  Slices slices(memory);
  w.q = slices.take(n_q);
  w.cert = slices.take(n_heads);
  w.threshold = slices.take(n_heads);
  w.rest = slices.take(n_rest);
  w.tiles = slices.take(n_tiles);
  w.fired = reinterpret_cast<int32_t*>(slices.take(n_runs * kRunRows));
  w.n_fired = reinterpret_cast<int32_t*>(slices.take(n_runs));
  w.split_branch = Branch::kSplit;
  std::fill_n(w.q, n_q, 0.0f);
  std::fill_n(w.cert, n_heads, 0.0f);
  std::fill_n(w.threshold, n_heads, std::numeric_limits<float>::infinity());
  stream.pool()->run(b * w.h, [&](int64_t i, int32_t) { prepare_head(w, i / w.h, i % w.h); });
  stream.pool()->run(n_runs, [&](int64_t run, int32_t thread) { scan_run<Branch>(w, run, thread); });
  collect(w);
  return {};
}

Status scan(const ScanArchiveParams& p, Stream& stream) {
  if (p.q.dim(0) == 0) return {};
  const RecallPages& first = p.sets[0].pages;
  Work w;
  w.p = &p;
  w.h = p.q.dim(1);
  w.n_groups = ceil_div(w.h, kGroup);
  w.d_branch = first.d_branch;
  w.d_content = p.q.dim(2) - first.d_branch;
  w.rank = first.rank;
  w.n_branch = ceil_div(w.d_branch, kBlock);
  w.n_sketch = ceil_div(w.rank, kBlock);
  w.first_run.push_back(0);
  for (const ScanSet& set : p.sets) w.first_run.push_back(w.first_run.back() + ceil_div(set.pages.n_rows, kRunRows));
  return first.branch_dtype == DType::kBF16 ? scan_sets<RowBF16>(w, stream) : scan_sets<RowF32>(w, stream);
}

}  // namespace
}  // namespace vestige::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(scan);

Status scan_archive(const ScanArchiveParams& p, Stream& stream) { return HWY_DYNAMIC_DISPATCH(scan)(p, stream); }

}  // namespace vestige::cpu
#endif  // HWY_ONCE
