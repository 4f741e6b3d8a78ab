#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/tiles.h"
#include "base/thread_pool.h"

#define HWY_WANT_AVX3_DL  // for its dot product of bytes
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/scan_codes.cc"
#include "hwy/foreach_target.h"
// After foreach_target: compiled once a target.
#include "backend/cpu/code_scan-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu::HWY_NAMESPACE {
namespace {

/// One sequence of the call.
struct Job {
  const CodeSet* set = nullptr;
  CodeQuery query;
  const float *threshold = nullptr, *reference = nullptr;  // [n_packs * kCodePack], padded
  float* image = nullptr;                                  // both of them
  int64_t n_heads = 0;                                     // padded
  bool picks = false;                                      // not every row that passes joins
  int64_t runs_per_page = 0, first_run = 0, n_runs = 0;
  bool has_second = false;
  const int64_t* group = nullptr;  // of each head
};

/// What a run leaves behind.
struct RunOut {
  int32_t* fired = nullptr;  // [kRunRows]
  float* bounds = nullptr;   // [kRunRows, 3, n_heads]: bound, sound bound and least score, only where rows are picked
  float* omitted = nullptr;  // [n_heads]
  int32_t n_fired = 0, n_second = 0, n_first = 0;
};

/// Rows of a run that stage 0 let pass, [head][kRunRows].
struct Passed {
  float *score, *bound, *sound, *least;
  int32_t* row;  // in the page
  int64_t n = 0;
};

struct Scratch {
  float *score, *bound, *sound, *least;  // [n_heads, kTileRows]
  Passed passed;
};

/// An upper bound on exp(x), at most 6.2% above it: 2^f <= 1 + f for f in [0, 1), which is what the bits of a float
/// are. Below -87 a bound of 1e-38; past 80, or not a number: infinity.
HWY_INLINE VC exp_above(VC x) {
  const DC d;
  const DCI di;
  constexpr float kOctave = 8388608.0f, kLog2e = 1.44269504f;
  // 64: more than the rounding of the product and the sum, whose last place that is.
  const VC bits = hn::MulAdd(x, hn::Set(d, kOctave * kLog2e), hn::Set(d, 127.0f * kOctave + 64.0f));
  const auto fits = hn::Lt(x, hn::Set(d, 80.0f));
  const VC cut = hn::Max(hn::IfThenElse(fits, bits, hn::Set(d, kOctave)), hn::Set(d, kOctave));
  return hn::IfThenElse(fits, hn::BitCast(d, hn::ConvertTo(di, cut)), hn::Inf(d));
}

/// Scores and bounds of one part of a tile for every head; ORs into `hit` the rows that pass.
template <class Units, class Norms, class Base>
HWY_INLINE void bound_part(const Job& job, int64_t s, const Units& units, const Norms& norms, const Base& base,
                           int64_t at, const Scratch& to, hn::Mask<DC>& hit) {
  const DC d;
  const CodeStage& stage = job.set->stages[static_cast<size_t>(s)];
  const VC z = hn::Set(d, job.set->z[s]);
  for (int64_t pack = 0; pack < job.query.n_packs; ++pack) {
    const StageWeights& w = job.query.stage(pack, s);
    for (int64_t first = 0; first < kCodePack; first += kHeads) {
      VC score[kHeads];
      score_part(stage, w, first, units, score);
      for (int64_t i = 0; i < kHeads; ++i) {
        const int64_t head = pack * kCodePack + first + i;
        if (head >= job.query.h) break;
        const VC reach = hn::Mul(hn::Set(d, w.norm[first + i]), norms(job.group[head]));
        VC sum = score[i], least_bound, least_sound, most_least;
        base(head, sum, least_bound, least_sound, most_least);
        const VC slack = hn::Set(d, w.slack[first + i]), centre = hn::Add(sum, slack);
        // 0 * infinity is not a number, which fires: z = 0 and no bound do not go together.
        VC bound = hn::MulAdd(z, reach, centre), sound = hn::Add(centre, reach);
        if (s > 0) {
          bound = hn::IfThenElse(hn::Lt(least_bound, bound), least_bound, bound);
          sound = hn::IfThenElse(hn::Lt(least_sound, sound), least_sound, sound);
        }
        if (job.picks) {
          VC least = hn::NegMulAdd(z, reach, hn::Sub(sum, slack));
          if (s > 0) least = hn::IfThenElse(hn::Lt(least, most_least), most_least, least);
          hn::StoreU(least, d, to.least + head * kTileRows + at);
        }
        hn::StoreU(sum, d, to.score + head * kTileRows + at);
        hn::StoreU(bound, d, to.bound + head * kTileRows + at);
        hn::StoreU(sound, d, to.sound + head * kTileRows + at);
        const VC limit = hn::Set(d, job.threshold[head]);
        // Not above, but "not at or below": a bound that is not a number fires.
        if (job.threshold[head] != std::numeric_limits<float>::infinity()) {
          hit = hn::Or(hit, hn::Not(hn::Le(bound, limit)));
        }
      }
    }
  }
}

/// Adds exp(sound bound - reference) of the rows in `left` to the run's omitted sums.
HWY_INLINE void add_omitted(const Job& job, const Scratch& s, int64_t at, hn::Mask<DC> left, VC* sums) {
  const DC d;
  if (hn::AllFalse(d, left)) return;
  for (int64_t head = 0; head < job.query.h; ++head) {
    const VC x = hn::Sub(hn::LoadU(d, s.sound + head * kTileRows + at), hn::Set(d, job.reference[head]));
    sums[head] = hn::Add(sums[head], hn::IfThenElseZero(left, exp_above(x)));
  }
}

HWY_INLINE void fire(const Job& job, const Scratch& s, int64_t lane, int64_t id, RunOut& out) {
  if (job.picks) {
    float* to = out.bounds + out.n_fired * 3 * job.n_heads;
    for (const float* from : {s.bound, s.sound, s.least}) {
      for (int64_t head = 0; head < job.query.h; ++head) to[head] = from[head * kTileRows + lane];
      to += job.n_heads;
    }
  }
  out.fired[out.n_fired++] = static_cast<int32_t>(id);
}

HWY_NOINLINE void scan_second(const Job& job, int64_t page, Scratch& s, RunOut& out, VC* sums) {
  const DC d;
  const DCI di;
  const CodeStage& stage = job.set->stages[1];
  const int64_t row_bytes = stage.row_bytes(job.set->transform.metric.dim(0)), units = stage.units();
  const auto* base = static_cast<const uint8_t*>(job.set->pages.codes[1][page]);
  const Passed& p = s.passed;
  for (int64_t begin = 0; begin < p.n; begin += kPartRows) {
    const int64_t n = std::min(kPartRows, p.n - begin);
    alignas(64) int32_t offsets[kTileRows];
    for (int64_t i = 0; i < kPartRows; ++i) {
      offsets[i] = static_cast<int32_t>(p.row[begin + std::min(i, n - 1)] * row_bytes);
    }
    const RowUnits rows = {base, hn::Load(di, offsets)};
    hn::Mask<DC> hit = hn::MaskFromVec(hn::Zero(d));
    const auto from_first = [&](int64_t head, VC& sum, VC& least_bound, VC& least_sound, VC& most_least) HWY_ATTR {
      const int64_t from = head * kRunRows + begin;
      sum = hn::Add(hn::LoadU(d, p.score + from), sum);
      least_bound = hn::LoadU(d, p.bound + from);
      least_sound = hn::LoadU(d, p.sound + from);
      most_least = hn::LoadU(d, p.least + from);
    };
    const auto norms = [&](int64_t group) HWY_ATTR { return row_norms(rows, units, group); };
    bound_part(job, 1, rows, norms, from_first, 0, s, hit);
    const uint32_t there = (1u << n) - 1u, fired = bits_of(hit, 0) & there;
    for (int64_t i = 0; i < n; ++i) {
      if ((fired >> i & 1) != 0) fire(job, s, i, page * job.set->pages.page_rows + p.row[begin + i], out);
    }
    add_omitted(job, s, 0, mask_of(there & ~fired, 0), sums);
  }
  out.n_second += static_cast<int32_t>(p.n);
}

/// One tile of stage 0; rows that pass go to the list, or fire if there is no second stage.
HWY_INLINE void scan_tile(const Job& job, int64_t page, int64_t tile, Scratch& s, RunOut& out, VC* sums) {
  const DC d;
  const CodeStage& stage = job.set->stages[0];
  const int64_t n_groups = job.set->transform.metric.dim(0);
  const uint8_t* units =
      static_cast<const uint8_t*>(job.set->pages.codes[0][page]) + tile * kTileRows * stage.row_bytes(n_groups);
  const uint8_t* norms_at = units + 4 * stage.units() * kTileRows;
  const uint32_t open = open_rows(*job.set, page, tile * kTileRows);
  uint32_t passed = 0;
  for (int64_t at = 0; at < kTileRows; at += kPartRows) {
    hn::Mask<DC> hit = hn::MaskFromVec(hn::Zero(d));
    const auto nothing = [](int64_t, VC&, VC&, VC&, VC&) HWY_ATTR {};
    const auto norms = [&](int64_t group) HWY_ATTR { return tile_norms(norms_at + group * kTileRows + at); };
    bound_part(job, 0, TileUnits{units + at * 4}, norms, nothing, at, s, hit);
    passed |= bits_of(hit, at) & open;
    add_omitted(job, s, at, mask_of(open & ~passed, at), sums);
  }
  out.n_first += static_cast<int32_t>(std::popcount(open));
  for (; passed != 0; passed &= passed - 1) {
    const int lane = std::countr_zero(passed);
    const auto row = static_cast<int32_t>(tile * kTileRows + lane);
    if (!job.has_second) {
      fire(job, s, lane, page * job.set->pages.page_rows + row, out);
      continue;
    }
    Passed& p = s.passed;
    for (int64_t head = 0; head < job.query.h; ++head) {
      const int64_t from = head * kTileRows + lane, to = head * kRunRows + p.n;
      p.score[to] = s.score[from];
      p.bound[to] = s.bound[from];
      p.sound[to] = s.sound[from];
      if (job.picks) p.least[to] = s.least[from];
    }
    p.row[p.n++] = row;
  }
}

constexpr int64_t kMaxHeads = 256;

HWY_NOINLINE void scan_run(const Job& job, int64_t run, Scratch s, RunOut& out) {
  const DC d;
  const CodePages& pages = job.set->pages;
  const int64_t page = run / job.runs_per_page, first = run % job.runs_per_page * kRunTiles;
  const int64_t end = first + tiles_from(pages, page, first, kRunTiles);
  VC sums[kMaxHeads];
  for (int64_t head = 0; head < job.query.h; ++head) sums[head] = hn::Zero(d);
  for (int64_t tile = first; tile < end; ++tile) scan_tile(job, page, tile, s, out, sums);
  if (s.passed.n > 0) scan_second(job, page, s, out, sums);
  for (int64_t head = 0; head < job.query.h; ++head) {
    out.omitted[head] = hn::GetLane(hn::SumOfLanes(d, sums[head]));
  }
}

/// A head's threshold as rows join: log(exp(threshold) + share sum exp(least score)), never above it.
class RisingThreshold {
 public:
  RisingThreshold(float threshold, float share)
      : value_(double(threshold)), log_share_(share > 0 ? std::log(double(share)) : -INFINITY) {}

  bool passes(float bound) const { return !(double(bound) <= value_); }

  /// Each sum loses more than it may have been rounded up by.
  void add(float least) {
    double x = double(least) + log_share_;
    x -= 1e-15 * (1e3 + std::abs(x));
    if (!(x < INFINITY) || x == -INFINITY) return;  // no number: the row's weight is not known
    const double high = std::max(x, value_), low = std::min(x, value_);
    const double sum = high + std::log1p(std::exp(low - high));
    value_ = std::max(value_, sum - 1e-15 * (1 + std::abs(sum)));
  }

 private:
  double value_, log_share_;
};

/// Rows that passed, in the order of their ids.
struct Fired {
  std::vector<int32_t> ids;
  std::vector<const float*> bounds;  // as in RunOut
};

/// Leaves the rows that join for some head; adds what the others may weigh to `omitted`.
void pick_rows(const ScanCodesParams& p, const Job& job, int64_t b, Fired* fired, double* omitted) {
  std::vector<uint8_t> wanted(fired->ids.size());
  std::vector<std::pair<float, int32_t>> heap;  // bound, place
  const auto after = [](const std::pair<float, int32_t>& x, const std::pair<float, int32_t>& y) {
    if (std::isnan(x.first) != std::isnan(y.first)) return std::isnan(y.first);
    return x.first < y.first || (!(x.first > y.first) && x.second > y.second);
  };
  for (int64_t head = 0; head < job.query.h; ++head) {
    if (job.threshold[head] == std::numeric_limits<float>::infinity()) continue;
    RisingThreshold threshold(job.threshold[head], p.share);
    heap.clear();
    for (size_t i = 0; i < fired->ids.size(); ++i) {
      const float bound = fired->bounds[i][head];
      if (threshold.passes(bound)) heap.emplace_back(bound, static_cast<int32_t>(i));
    }
    std::make_heap(heap.begin(), heap.end(), after);
    for (int64_t n = 0; !heap.empty() && (p.top_j == 0 || n < p.top_j); ++n) {
      std::pop_heap(heap.begin(), heap.end(), after);
      const auto [bound, place] = heap.back();
      heap.pop_back();
      if (!threshold.passes(bound)) break;
      wanted[static_cast<size_t>(place)] = 1;
      if (n >= p.n_free) threshold.add(fired->bounds[static_cast<size_t>(place)][2 * job.n_heads + head]);
    }
  }
  size_t n = 0;
  const float* reference = p.reference.as<float>() + b * job.query.h;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] != 0) {
      fired->ids[n++] = fired->ids[i];
      continue;
    }
    for (int64_t head = 0; head < job.query.h; ++head) {
      const double over = double(fired->bounds[i][job.n_heads + head]) - double(reference[head]);
      omitted[head] += std::isnan(over) ? INFINITY : std::exp(over);
    }
  }
  fired->ids.resize(n);
}

void collect(const ScanCodesParams& p, const Job& job, int64_t b, const std::vector<RunOut>& runs) {
  const int64_t capacity = p.ids.dim(1);
  std::vector<double> omitted(static_cast<size_t>(job.query.h));
  Fired fired;
  int64_t n_stage[2] = {};
  for (int64_t run = job.first_run; run < job.first_run + job.n_runs; ++run) {
    const RunOut& r = runs[static_cast<size_t>(run)];
    fired.ids.insert(fired.ids.end(), r.fired, r.fired + r.n_fired);
    for (int32_t i = 0; job.picks && i < r.n_fired; ++i) fired.bounds.push_back(r.bounds + i * 3 * job.n_heads);
    n_stage[0] += r.n_first;
    n_stage[1] += r.n_second;
    for (int64_t head = 0; head < job.query.h; ++head) omitted[static_cast<size_t>(head)] += double(r.omitted[head]);
  }
  if (job.picks) pick_rows(p, job, b, &fired, omitted.data());
  const auto total = static_cast<int64_t>(fired.ids.size()), n = std::min(total, capacity);
  std::copy_n(fired.ids.begin(), n, p.ids.as<int32_t>() + b * capacity);
  p.n_ids.as<int32_t>()[b] = static_cast<int32_t>(n);
  p.n_fired.as<int32_t>()[b] = static_cast<int32_t>(total);
  std::copy_n(n_stage, 2, p.n_stage.as<int64_t>() + b * 2);
  for (int64_t head = 0; head < job.query.h; ++head) {
    const bool finite = std::isfinite(p.reference.as<float>()[b * job.query.h + head]);
    // 1.0001 covers the float32 sums.
    p.omitted.as<float>()[b * job.query.h + head] =
        finite ? static_cast<float>(omitted[static_cast<size_t>(head)] * 1.0001)
               : std::numeric_limits<float>::infinity();
  }
}

Status scan(const ScanCodesParams& p, Stream& stream) {
  const int64_t b = p.q.dim(0), h = p.q.dim(1), d = p.q.dim(2), n_heads = round_up(h, kCodePack);
  if (h > kMaxHeads) return unsupported("scan_codes: %lld heads, at most %lld", (long long)h, (long long)kMaxHeads);
  std::vector<Job> jobs(static_cast<size_t>(b));
  int64_t n_runs = 0, n_query = 0;
  for (int64_t i = 0; i < b; ++i) {
    Job& job = jobs[static_cast<size_t>(i)];
    job.set = &p.sets[static_cast<size_t>(i)];
    job.n_heads = n_heads;
    job.picks = p.top_j > 0 || p.share > 0;
    job.has_second = job.set->stages.size() > 1;
    const CodeRuns runs(job.set->pages);
    job.runs_per_page = runs.per_page;
    job.first_run = n_runs;
    job.n_runs = runs.n;
    n_runs += job.n_runs;
    n_query += code_query_floats(*job.set, h, kDot) + line_floats(2 * n_heads);
  }
  const int64_t tile = line_floats(n_heads * kTileRows), list = line_floats(n_heads * kRunRows);
  const bool picks = p.top_j > 0 || p.share > 0;
  const int64_t each = 4 * tile + 4 * list + line_floats(kRunRows);
  const int64_t per_run =
      line_floats(kRunRows) + line_floats(n_heads) + (picks ? line_floats(kRunRows * 3 * n_heads) : 0);
  VESTIGE_ASSIGN(float* const memory,
                 scratch_floats(ScratchSlot::kOp, n_query + each * stream.n_threads() + per_run * n_runs));
  Slices slices(memory);
  std::vector<StageWeights> weights(static_cast<size_t>(b * n_heads / kCodePack * 2));
  std::vector<int64_t> group(static_cast<size_t>(b * h));
  for (int64_t i = 0; i < b; ++i) {
    Job& job = jobs[static_cast<size_t>(i)];
    job.image = slices.take(2 * n_heads);
    std::copy_n(p.threshold.as<float>() + i * h, h, job.image);
    std::copy_n(p.reference.as<float>() + i * h, h, job.image + n_heads);
    job.group = group.data() + i * h;
    for (int64_t head = 0; head < h; ++head) {
      group[static_cast<size_t>(i * h + head)] = head / (h / job.set->transform.metric.dim(0));
    }
    job.threshold = job.image;
    job.reference = job.image + n_heads;
    job.query = prepare_code_query(*job.set, p.q.as<float>() + i * h * d, h, p.scale, kDot, slices,
                                   weights.data() + i * n_heads / kCodePack * 2, *stream.pool());
  }
  float* const own = slices.take(each * stream.n_threads());
  std::vector<RunOut> runs(static_cast<size_t>(n_runs));
  for (RunOut& run : runs) {
    run.fired = reinterpret_cast<int32_t*>(slices.take(kRunRows));
    run.omitted = slices.take(n_heads);
    if (picks) run.bounds = slices.take(kRunRows * 3 * n_heads);
  }
  stream.pool()->run(n_runs, [&](int64_t run, int32_t thread) {
    const auto after =
        std::upper_bound(jobs.begin(), jobs.end(), run, [](int64_t r, const Job& job) { return r < job.first_run; });
    const Job& job = *(after - 1);
    Slices mine(own + each * thread);
    Scratch s = {};
    for (float** part : {&s.score, &s.bound, &s.sound, &s.least}) *part = mine.take(n_heads * kTileRows);
    Passed& passed = s.passed;
    for (float** part : {&passed.score, &passed.bound, &passed.sound, &passed.least})
      *part = mine.take(n_heads * kRunRows);
    passed.row = reinterpret_cast<int32_t*>(mine.take(kRunRows));
    scan_run(job, run - job.first_run, s, runs[static_cast<size_t>(run)]);
  });
  for (int64_t i = 0; i < b; ++i) collect(p, jobs[static_cast<size_t>(i)], i, runs);
  return {};
}

}  // namespace
}  // namespace vestige::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(scan);

Status scan_codes(const ScanCodesParams& p, Stream& stream) { return HWY_DYNAMIC_DISPATCH(scan)(p, stream); }

}  // namespace vestige::cpu
#endif  // HWY_ONCE
