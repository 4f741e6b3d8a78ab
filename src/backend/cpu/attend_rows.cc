#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/tiles.h"
#include "base/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attend_rows.cc"
#include "hwy/foreach_target.h"
// After foreach_target: compiled once a target.
#include "backend/cpu/row_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu::HWY_NAMESPACE {
namespace {

// 32 rows of bf16 are 36 KB: read twice (scores, values) from L1 or L2, and long enough that loading and storing
// the sums of a tile is a thirtieth of its work.
constexpr int64_t kTile = 32;

/// With this many heads or fewer a group has that size: a key-value head's rows are short, and its heads few.
constexpr int64_t kFew = 4;

/// Runs of a set, at most: enough for threads to share, few enough that merging them stays cheap.
constexpr int64_t kMaxRuns = 64;

/// Rows of one run; a matter of the set's size alone.
int64_t run_rows(int64_t n) {
  return round_up(std::max(ceil_div(n, kMaxRuns), std::min<int64_t>(ceil_div(n, 16), 128)), kTile);
}

/// Sizes and memory of one call.
struct Work {
  const AttendRowsParams* p = nullptr;
  int64_t n_threads = 1, h = 0, n_groups = 0, d_content = 0, d_branch = 0;
  int64_t group_heads = kGroup;         // heads that share a pass over a tile of rows: kGroup, or kFew
  int64_t n_content = 0, n_branch = 0;  // blocks
  int64_t n_scored = 0;                 // blocks of content that are scored: n_content, or none
  int64_t part_size = 0;                // floats of one group of one run: sums, then max and sum of weights by head
  bool split = false;
  std::vector<int64_t> n_rows, first_run;  // by sequence; first_run has one more entry
  float* q = nullptr;                      // [b, n_groups, n_scored + n_branch, group_heads, kBlock]
  float* parts = nullptr;                  // [runs, n_groups, part_size]
  float* tiles = nullptr;                  // [n_threads, 2, kTile, padded row], only if rows do not fill whole blocks

  int64_t q_size() const { return (n_scored + n_branch) * group_heads * kBlock; }
  float* part(int64_t run, int64_t group) const { return parts + (run * n_groups + group) * part_size; }
  bool padded() const { return n_content * kBlock != d_content || n_branch * kBlock != d_branch; }
  int64_t tile_floats() const { return padded() ? 2 * kTile * (n_content + n_branch) * kBlock : 0; }
};

void place_queries(const Work& w) {
  const AttendRowsParams& p = *w.p;
  // Where rows fill their blocks and heads their groups there is nothing between the numbers to be zero.
  if (w.padded() || w.h % w.group_heads != 0) std::fill_n(w.q, p.q.dim(0) * w.n_groups * w.q_size(), 0.0f);
  for (int64_t b = 0; b < p.q.dim(0); ++b) {
    for (int64_t head = 0; head < w.h; ++head) {
      const float* q = p.q.as<float>() + (b * w.h + head) * p.q.dim(2);
      float* image = w.q + (b * w.n_groups + head / w.group_heads) * w.q_size();
      float* slot = image + head % w.group_heads * kBlock;
      if (w.n_scored > 0) place_segment(q, w.d_content, w.split, slot, w.group_heads);
      place_segment(q + w.d_content, w.d_branch, w.split, slot + w.n_scored * w.group_heads * kBlock, w.group_heads);
    }
  }
}

/// Scores [n, kHeads] to weights in place; moves the running max and sum and says by what the old sums shrink.
template <int64_t kHeads>
HWY_INLINE void weigh(float* s, int64_t n, float scale, float* max, float* sum, float* shrink) {
  const hn::CappedTag<float, static_cast<size_t>(kHeads)> d;
  constexpr int64_t kStep = static_cast<int64_t>(hn::MaxLanes(d));
  const float inf = std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < kHeads; i += kStep) {
    const auto old = hn::LoadU(d, max + i);
    auto best = old;
    for (int64_t t = 0; t < n; ++t) {
      const auto x = hn::Mul(hn::LoadU(d, s + t * kHeads + i), hn::Set(d, scale));
      hn::StoreU(x, d, s + t * kHeads + i);
      best = hn::Max(best, x);
    }
    // A head that has seen nothing but -inf has no maximum to subtract.
    const auto base = hn::IfThenZeroElse(hn::Eq(best, hn::Set(d, -inf)), best);
    const auto factor = exp_nonpositive(d, hn::Sub(old, base));
    auto total = hn::Mul(hn::LoadU(d, sum + i), factor);
    for (int64_t t = 0; t < n; ++t) {
      const auto e = exp_nonpositive(d, hn::Sub(hn::LoadU(d, s + t * kHeads + i), base));
      hn::StoreU(e, d, s + t * kHeads + i);
      total = hn::Add(total, e);
    }
    hn::StoreU(best, d, max + i);
    hn::StoreU(total, d, sum + i);
    hn::StoreU(factor, d, shrink + i);
  }
}

/// out[block, head] = shrink[head] * out[block, head] + sum_t weight[t, head] * content[t, block]
template <int64_t kHeads, class Row>
HWY_INLINE void add_values(const typename Row::Type* const* content, const typename Row::Type* const* next, int64_t n,
                           int64_t n_blocks, const float* weight, const float* shrink, float* HWY_RESTRICT out) {
  const DF d;
  constexpr int64_t kN = kSub < kHeads ? kSub : kHeads;
  for (int64_t k = 0; k < n_blocks; ++k) {
    for (int64_t head = 0; head < kHeads; head += kN) {
      float* o = out + (k * kHeads + head) * kBlock;
      VF first[kN], second[kN];
#pragma GCC unroll 8
      for (int64_t i = 0; i < kN; ++i) {
        const VF factor = hn::Set(d, shrink[head + i]);
        first[i] = hn::Mul(hn::Load(d, o + i * kBlock), factor);
        second[i] = hn::Mul(hn::Load(d, o + i * kBlock + kLanes), factor);
      }
      for (int64_t t = 0; t < n; ++t) {
        VF a, b;
        Row::load(content[t] + k * kBlock, a, b);
        if (head == 0) hwy::Prefetch(next[t] + k * kBlock);
#pragma GCC unroll 8
        for (int64_t i = 0; i < kN; ++i) {
          const VF x = hn::Set(d, weight[t * kHeads + head + i]);
          first[i] = hn::MulAdd(x, a, first[i]);
          second[i] = hn::MulAdd(x, b, second[i]);
        }
      }
#pragma GCC unroll 8
      for (int64_t i = 0; i < kN; ++i) {
        hn::Store(first[i], d, o + i * kBlock);
        hn::Store(second[i], d, o + i * kBlock + kLanes);
      }
    }
  }
}

/// Two tiles of rows: the one in work and the next one, fetched from memory meanwhile.
template <class Row>
struct TilePair {
  const typename Row::Type* content[2][kTile];
  const typename Row::Type* branch[2][kTile];
  typename Row::Type* copies = nullptr;  // [2, kTile, padded row], only if rows do not fill whole blocks
};

/// Finds the rows [begin, begin + n) of a set; copies them into zero-padded ones if they do not fill whole blocks.
template <class Row>
HWY_INLINE void find_rows(const Work& w, const RowSet& set, int64_t begin, int64_t n, TilePair<Row>& tiles, int which) {
  using T = typename Row::Type;
  const int64_t n_padded = (w.n_content + w.n_branch) * kBlock;
  const RowPages& pages = set.pages;
  int64_t page = begin / pages.page_rows, row = begin % pages.page_rows;
  for (int64_t t = 0; t < n; ++t, ++row) {
    if (set.ids != nullptr) {
      page = set.ids[begin + t] / pages.page_rows;
      row = set.ids[begin + t] % pages.page_rows;
    } else if (row == pages.page_rows) {  // no division a row: rows may be short
      ++page;
      row = 0;
    }
    const T* content = static_cast<const T*>(pages.content[page]) + row * pages.content_stride;
    const T* branch = w.d_branch > 0 ? static_cast<const T*>(pages.branch[page]) + row * pages.branch_stride : nullptr;
    if (w.padded()) {
      T* copy = tiles.copies + (which * kTile + t) * n_padded;
      std::fill_n(copy, n_padded, T{0});
      std::copy_n(content, w.d_content, copy);
      if (w.d_branch > 0) std::copy_n(branch, w.d_branch, copy + w.n_content * kBlock);
      content = copy;
      branch = copy + w.n_content * kBlock;
    }
    tiles.content[which][t] = content;
    tiles.branch[which][t] = branch;
  }
}

/// One run of rows: an unnormalised part for each group of heads.
template <int64_t kHeads, class Row>
HWY_NOINLINE void attend_run(const Work& w, int64_t run, int32_t thread) {
  const auto after = std::upper_bound(w.first_run.begin(), w.first_run.end(), run);
  const int64_t b = after - w.first_run.begin() - 1;
  const RowSet& set = w.p->rows[static_cast<size_t>(b)];
  const int64_t n_set = w.n_rows[static_cast<size_t>(b)], step = run_rows(n_set);
  const int64_t begin = (run - w.first_run[static_cast<size_t>(b)]) * step, end = std::min(begin + step, n_set);
  for (int64_t group = 0; group < w.n_groups; ++group) {
    float* part = w.part(run, group);
    std::fill_n(part, w.part_size, 0.0f);
    std::fill_n(part + w.n_content * kHeads * kBlock, kHeads, -std::numeric_limits<float>::infinity());
  }
  constexpr auto kLine = static_cast<int64_t>(64 / sizeof(typename Row::Type));  // numbers of a cache line
  TilePair<Row> tiles;
  alignas(64) float s[kTile * kHeads];
  alignas(64) float shrink[kHeads];
  int now = 0;
  tiles.copies = reinterpret_cast<typename Row::Type*>(w.tiles + thread * w.tile_floats());
  auto n_at = [&](int64_t u) { return std::min(kTile, (u < end ? end : n_set) - u); };
  // Behind this run comes, most likely, the one that the other threads leave: runs are handed out in order.
  const int64_t after_run = begin + w.n_threads * step;
  find_rows(w, set, begin, n_at(begin), tiles, 0);
  for (int64_t u = begin; u < end; u += kTile, now = 1 - now) {
    // Past the last run the "next" rows are this tile's again: fetching them costs nothing.
    const int64_t n = n_at(u), next = u + kTile < end ? u + kTile : after_run < n_set ? after_run : u;
    find_rows(w, set, next, n_at(next), tiles, 1 - now);
    for (int64_t t = n_at(next); t < n; ++t) tiles.content[1 - now][t] = tiles.content[now][t];
    for (int64_t t = 0; t < n_at(next); ++t) {
      for (int64_t k = 0; k < w.n_branch * kBlock; k += kLine) hwy::Prefetch(tiles.branch[1 - now][t] + k);
    }
    const TileRows<Row, Row> rows = {tiles.content[now], tiles.branch[now], w.n_scored, w.n_branch};
    for (int64_t group = 0; group < w.n_groups; ++group) {
      float* part = w.part(run, group);
      float* max = part + w.n_content * kHeads * kBlock;
      dot_rows<kHeads>(rows, n, w.q + (b * w.n_groups + group) * w.q_size(), s);
      weigh<kHeads>(s, n, w.p->scale, max, max + kHeads, shrink);
      add_values<kHeads, Row>(tiles.content[now], tiles.content[1 - now], n, w.n_content, s, shrink, part);
    }
  }
}

/// Adds the sums of one head over its runs, each times its weight, in their order. They gather in the first run's
/// part: nobody else reads this head's slot of it.
HWY_INLINE float* add_runs(const Work& w, int64_t group, int64_t slot, int64_t begin, int64_t end,
                           const float* weight) {
  float* sums = w.part(begin, group) + slot * kBlock;
  const DF d;
  for (int64_t k = 0; k < w.n_content; ++k) {
    for (int64_t i = k * w.group_heads * kBlock; i < k * w.group_heads * kBlock + kBlock; i += kLanes) {
      VF sum = hn::Mul(hn::Set(d, weight[0]), hn::Load(d, sums + i));
      for (int64_t run = begin + 1; run < end; ++run) {
        const float* part = w.part(run, group) + slot * kBlock;
        sum = hn::MulAdd(hn::Set(d, weight[run - begin]), hn::Load(d, part + i), sum);
      }
      hn::Store(sum, d, sums + i);
    }
  }
  return sums;
}

/// out, lse and max of one head of one sequence from its runs.
HWY_NOINLINE void merge_runs(const Work& w, int64_t b, int64_t head) {
  const AttendRowsParams& p = *w.p;
  const int64_t begin = w.first_run[static_cast<size_t>(b)], end = w.first_run[static_cast<size_t>(b + 1)];
  const int64_t group = head / w.group_heads, slot = head % w.group_heads,
                at = w.n_content * w.group_heads * kBlock + slot;
  float best = -std::numeric_limits<float>::infinity(), total = 0;
  for (int64_t run = begin; run < end; ++run) best = std::max(best, w.part(run, group)[at]);
  float weight[kMaxRuns];
  for (int64_t run = begin; run < end; ++run) {
    const float max = w.part(run, group)[at];
    weight[run - begin] = max == best ? 1.0f : std::exp(max - best);
    total += weight[run - begin] * w.part(run, group)[at + w.group_heads];
  }
  for (int64_t i = 0; i < end - begin; ++i) weight[i] /= total;
  float* out = p.out.as<float>() + (b * w.h + head) * w.d_content;
  if (begin == end) {
    std::fill_n(out, w.d_content, 0.0f);
  } else {
    take_segment(add_runs(w, group, slot, begin, end, weight), w.d_content, w.split, out, w.group_heads);
  }
  p.lse.as<float>()[b * w.h + head] = best + std::log(total);
  if (!p.max.empty()) p.max.as<float>()[b * w.h + head] = best;
}

template <class Row>
Status run_rows_of(Work& w, Stream& stream) {
  const AttendRowsParams& p = *w.p;
  const int64_t b = p.q.dim(0), n_runs = w.first_run.back();
  const int64_t n_q = b * w.n_groups * w.q_size(), n_parts = n_runs * w.n_groups * w.part_size;
  const int64_t n_tiles = stream.n_threads() * w.tile_floats();
  VESTIGE_ASSIGN(float* const memory,
                 scratch_floats(ScratchSlot::kOp, line_floats(n_q) + line_floats(n_parts) + line_floats(n_tiles)));
  Slices slices(memory);
  w.q = slices.take(n_q);
  w.parts = slices.take(n_parts);
  w.tiles = slices.take(n_tiles);
  w.split = Row::kSplit;
  place_queries(w);
  stream.pool()->run(n_runs, [&](int64_t run, int32_t thread) {
    w.group_heads == kFew ? attend_run<kFew, Row>(w, run, thread) : attend_run<kGroup, Row>(w, run, thread);
  });
  // Heads of one piece: about 32 KB of sums, so that merging a run or two wakes no worker.
  const int64_t mean_runs = ceil_div(n_runs, b);
  const int64_t heads = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, mean_runs * w.d_content));
  stream.pool()->run(ceil_div(b * w.h, heads), [&](int64_t piece, int32_t) {
    for (int64_t i = piece * heads; i < std::min(b * w.h, (piece + 1) * heads); ++i) merge_runs(w, i / w.h, i % w.h);
  });
  return {};
}

Status attend(const AttendRowsParams& p, Stream& stream) {
  if (p.q.dim(0) == 0) return {};
  const RowLayout& layout = p.rows[0].pages.layout;
  Work w;
  w.p = &p;
  w.n_threads = stream.n_threads();
  w.h = p.q.dim(1);
  w.group_heads = w.h <= kFew ? kFew : kGroup;
  w.n_groups = ceil_div(w.h, w.group_heads);
  w.d_content = layout.d_content;
  w.d_branch = layout.d_branch;
  w.n_content = ceil_div(layout.d_content, kBlock);
  w.n_branch = ceil_div(layout.d_branch, kBlock);
  w.n_scored = layout.scored_content ? w.n_content : 0;
  w.part_size = line_floats(w.n_content * w.group_heads * kBlock + 2 * w.group_heads);
  w.first_run.push_back(0);
  for (const RowSet& set : p.rows) {
    const int64_t n = set.n_rows != nullptr ? *set.n_rows : set.pages.n_rows;
    w.n_rows.push_back(n);
    w.first_run.push_back(w.first_run.back() + (n == 0 ? 0 : ceil_div(n, run_rows(n))));
  }
  return layout.dtype == DType::kBF16 ? run_rows_of<RowBF16>(w, stream) : run_rows_of<RowF32>(w, stream);
}

}  // namespace
}  // namespace vestige::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(attend);

Status attend_rows(const AttendRowsParams& p, Stream& stream) { return HWY_DYNAMIC_DISPATCH(attend)(p, stream); }

}  // namespace vestige::cpu
#endif  // HWY_ONCE
