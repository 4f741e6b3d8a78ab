#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/tiles.h"
#include "backend/ops/code_entries.h"
#include "base/thread_pool.h"

#define HWY_WANT_AVX3_DL  // for its dot product of bytes
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attend_codes.cc"
#include "hwy/foreach_target.h"
// After foreach_target: compiled once a target.
#include "backend/cpu/code_scan-inl.h"
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu::HWY_NAMESPACE {
namespace {

/// What a run of rows adds up to, per head: weights are exp(score - most).
struct RunSums {
  float *most, *sum;  // [n_heads]
  float* error;       // [3, n_heads]
  float* entries;     // [n_entries, n_heads]: sum of weight * integer of the entry
  int64_t n_rows = 0;
};

struct Job {
  const AttendCodesParams* p = nullptr;
  const CodeSet* set = nullptr;
  CodeQuery query;
  int64_t b = 0, n_heads = 0, runs_per_page = 0, n_runs = 0;
};

struct Span {
  int64_t page, first, n;  // tiles
};

/// Scores of the rows of a run into weight [n_heads, kRunRows], -inf where a row is not coded, and the error terms' e.
HWY_INLINE int64_t score_run(const Job& job, const Span& span, float* score, float* error) {
  const DC d;
  const CodeSet& set = *job.set;
  const CodeStage& stage = set.stages[0];
  const int64_t n_groups = set.transform.metric.dim(0), per_group = job.query.h / n_groups;
  const auto* page = static_cast<const uint8_t*>(set.pages.codes[0][span.page]);
  const int32_t* skip = job.p->skip.as<int32_t>() + job.b * job.p->skip.dim(1);
  const int32_t* skip_end = skip + job.p->n_skip.as<int32_t>()[job.b];
  int64_t n_rows = 0;
  for (int64_t tile = 0; tile < span.n; ++tile) {
    const int64_t row = (span.first + tile) * kTileRows;
    const auto id = static_cast<int32_t>(span.page * set.pages.page_rows + row);
    uint32_t open = open_rows(set, span.page, row);
    for (const int32_t* s = std::lower_bound(skip, skip_end, id); s < skip_end && *s < id + kTileRows; ++s) {
      open &= ~(1u << (*s - id));
    }
    n_rows += std::popcount(open);
    const uint8_t* units = page + row * stage.row_bytes(n_groups);
    const uint8_t* norms = units + 4 * stage.units() * kTileRows;
    for (int64_t at = 0; at < kTileRows; at += kPartRows) {
      const auto there = mask_of(open, at);
      for (int64_t head = 0; head < job.n_heads; head += kHeads) {
        const StageWeights& w = job.query.stage(head / kCodePack, 0);
        VC sums[kHeads];
        score_part(stage, w, head % kCodePack, TileUnits{units + at * 4}, sums);
        for (int64_t i = 0; i < kHeads; ++i) {
          const int64_t group = std::min(head + i, job.query.h - 1) / per_group, lane = head % kCodePack + i;
          const VC e = hn::MulAdd(hn::Set(d, w.norm[lane]), tile_norms(norms + group * kTileRows + at),
                                  hn::Set(d, w.slack[lane]));
          const int64_t to = (head + i) * kRunRows + tile * kTileRows + at;
          hn::StoreU(hn::IfThenElse(there, sums[i], hn::Neg(hn::Inf(d))), d, score + to);
          hn::StoreU(hn::IfThenElseZero(there, e), d, error + to);
        }
      }
    }
  }
  return n_rows;
}

/// Scores become weights; adds up weights and error terms of one head.
HWY_INLINE void weigh_head(const Job& job, const Span& span, float* score, const float* error, int64_t head,
                           const RunSums& out) {
  const DC d;
  const int64_t n = span.n * kTileRows;
  VC most = hn::Neg(hn::Inf(d));
  for (int64_t i = 0; i < n; i += kPartRows) most = hn::Max(most, hn::LoadU(d, score + i));
  const float top = hn::GetLane(hn::MaxOfLanes(d, most));
  VC sum = hn::Zero(d), e0 = sum, e1 = sum, e2 = sum;
  const auto* values = static_cast<const uint8_t*>(job.set->pages.value_norm[span.page]) + span.first * kTileRows;
  const int64_t in_page = std::min(n, rows_of_page(job.set->pages, span.page) - span.first * kTileRows);
  for (int64_t i = 0; i < n; i += kPartRows) {
    const VC s = hn::LoadU(d, score + i);
    // A row that is not coded has score -inf: weight 0 even where no row is.
    const auto coded = hn::Ne(s, hn::Neg(hn::Inf(d)));
    const VC w = hn::IfThenElseZero(coded, hn::Exp(d, hn::Sub(s, hn::Set(d, top))));
    hn::StoreU(w, d, score + i);
    // w e^e as one exponential: w alone may vanish where w e^e does not.
    const VC e = hn::LoadU(d, error + i), x = hn::Sub(s, hn::Set(d, top));
    const VC up = hn::IfThenElseZero(coded, exp_or_inf(hn::Add(x, e)));
    alignas(64) uint8_t bytes[kTileRows] = {};
    std::copy_n(values + i, std::clamp<int64_t>(in_page - i, 0, kPartRows), bytes);
    const VC v = hn::IfThenElseZero(coded, tile_norms(bytes));
    sum = hn::Add(sum, w);
    e0 = hn::MulAdd(up, v, e0);
    e1 = hn::Add(e1, hn::Sub(up, w));
    e2 = hn::Add(e2, hn::IfThenElseZero(coded, hn::Exp(d, hn::Sub(x, e))));
  }
  out.most[head] = top;
  out.sum[head] = hn::GetLane(hn::SumOfLanes(d, sum));
  out.error[head] = hn::GetLane(hn::SumOfLanes(d, e0));
  out.error[job.n_heads + head] = hn::GetLane(hn::SumOfLanes(d, e1));
  out.error[2 * job.n_heads + head] = hn::GetLane(hn::SumOfLanes(d, e2));
}

/// entries[e, head] = sum over the run's rows of weight * integer of entry e.
HWY_INLINE void sum_entries(const Job& job, const Span& span, const float* weight, const RunSums& out) {
  const DC d;
  const DCI di;
  const CodeStage& stage = job.set->stages[0];
  const int64_t tile_bytes = kTileRows * stage.row_bytes(job.set->transform.metric.dim(0));
  const auto* first = static_cast<const uint8_t*>(job.set->pages.codes[0][span.page]) + span.first * tile_bytes;
  for (int32_t e = 0; e < stage.n_entries(); ++e) {
    const EntryPlace place(stage, e);
    const auto mask = hn::Set(di, (1 << place.width) - 1);
    const int shift = 8 * place.byte + place.at;
    for (int64_t head = 0; head < job.n_heads; head += kHeads) {
      VC sums[kHeads];
#pragma GCC unroll 8
      for (int64_t i = 0; i < kHeads; ++i) sums[i] = hn::Zero(d);
      const float* w = weight + head * kRunRows;
      for (int64_t tile = 0; tile < span.n; ++tile) {
        const uint8_t* word = first + tile * tile_bytes + place.unit * kTileRows * 4;
        for (int64_t at = 0; at < kTileRows; at += kPartRows) {
          const VCI code = hn::And(hn::ShiftRightSame(TileUnits{word + at * 4}.load(0), shift), mask);
          const VC x = hn::ConvertTo(d, code);
#pragma GCC unroll 8
          for (int64_t i = 0; i < kHeads; ++i) {
            sums[i] = hn::MulAdd(hn::LoadU(d, w + i * kRunRows + tile * kTileRows + at), x, sums[i]);
          }
        }
      }
      for (int64_t i = 0; i < kHeads; ++i) {
        out.entries[e * job.n_heads + head + i] = hn::GetLane(hn::SumOfLanes(d, sums[i]));
      }
    }
  }
}

HWY_NOINLINE void attend_run(const Job& job, int64_t run, float* score, float* error, RunSums& out) {
  Span span = {run / job.runs_per_page, run % job.runs_per_page * kRunTiles, 0};
  span.n = tiles_from(job.set->pages, span.page, span.first, kRunTiles);
  out.n_rows = score_run(job, span, score, error);
  for (int64_t head = 0; head < job.n_heads; ++head) {
    weigh_head(job, span, score + head * kRunRows, error + head * kRunRows, head, out);
  }
  sum_entries(job, span, score, out);
}

/// The runs of one head in order, then from entries to coordinates to content.
void finish_head(const Job& job, const std::vector<RunSums>& runs, int64_t head, float* t, float* content) {
  const AttendCodesParams& p = *job.p;
  const CodeSet& set = *job.set;
  const CodeStage& stage = set.stages[0];
  const int64_t d = set.transform.mean.dim(0), at = job.b * job.query.h + head;
  float most = -std::numeric_limits<float>::infinity();
  for (const RunSums& r : runs) most = std::max(most, r.most[head]);
  double sum = 0, error[3] = {};
  std::vector<double> entries(static_cast<size_t>(stage.n_entries()));
  for (const RunSums& r : runs) {
    const double factor = r.sum[head] > 0 ? std::exp(double(r.most[head]) - double(most)) : 0.0;
    sum += factor * double(r.sum[head]);
    for (int64_t i = 0; i < 3; ++i) error[i] += factor * double(r.error[i * job.n_heads + head]);
    for (size_t e = 0; e < entries.size() && factor > 0; ++e) {
      entries[e] += factor * double(r.entries[static_cast<int64_t>(e) * job.n_heads + head]);
    }
  }
  std::fill_n(t, d, 0.0f);
  for (int32_t e = 0; e < stage.n_entries() && sum > 0; ++e) {
    const int32_t coord = stage.coord.as<int32_t>()[e];
    if (coord < 0) continue;
    const double middle = double(entry_middle(EntryPlace(stage, e).width));
    t[coord] +=
        static_cast<float>(double(stage.weight.as<float>()[e]) * (entries[static_cast<size_t>(e)] / sum - middle));
  }
  for (int64_t c = 0; c < set.d_content; ++c) content[c] = sum > 0 ? set.transform.mean.as<float>()[c] : 0.0f;
  for (int64_t j = 0; j < d; ++j) {
    if (t[j] == 0) continue;
    const float* row = set.transform.dual.as<float>() + j * d;
    for (int64_t c = 0; c < set.d_content; ++c) content[c] += t[j] * row[c];
  }
  p.lse.as<float>()[at] = static_cast<float>(double(most) + std::log(sum));
  // 1.001 and 1e-6 cover the float32 exponentials and sums.
  p.error.as<float>()[at * 3] = sum > 0 ? static_cast<float>(error[0] / sum * double(p.value_base) * 1.001) : 0.0f;
  p.error.as<float>()[at * 3 + 1] = sum > 0 ? static_cast<float>(error[1] / sum * 1.001 + 1e-6) : 0.0f;
  p.error.as<float>()[at * 3 + 2] = sum > 0 ? static_cast<float>(error[2] / sum * 0.999) : 0.0f;
}

Status attend_sequence(const AttendCodesParams& p, int64_t b, Stream& stream) {
  const int64_t h = p.q.dim(1), d = p.q.dim(2);
  Job job;
  job.p = &p;
  job.b = b;
  job.set = &p.sets[static_cast<size_t>(b)];
  job.n_heads = round_up(h, kCodePack);
  const CodeRuns of_sequence(job.set->pages);
  job.runs_per_page = of_sequence.per_page;
  job.n_runs = of_sequence.n;
  const int64_t n_entries = job.set->stages[0].n_entries();
  const int64_t per_run = 5 * line_floats(job.n_heads) + line_floats(n_entries * job.n_heads);
  const int64_t each = 2 * line_floats(job.n_heads * kRunRows), finish = line_floats(d);
  VESTIGE_ASSIGN(float* const memory,
                 scratch_floats(ScratchSlot::kOp, code_query_floats(*job.set, h, kDot) + per_run * job.n_runs +
                                                      (each + finish) * stream.n_threads()));
  Slices slices(memory);
  std::vector<StageWeights> weights(static_cast<size_t>(job.n_heads / kCodePack * 2));
  job.query = prepare_code_query(*job.set, p.q.as<float>() + b * h * d, h, p.scale, kDot, slices, weights.data(),
                                 *stream.pool());
  std::vector<RunSums> runs(static_cast<size_t>(job.n_runs));
  for (RunSums& run : runs) {
    run.most = slices.take(job.n_heads);
    run.sum = slices.take(job.n_heads);
    run.error = slices.take(3 * line_floats(job.n_heads));
    run.entries = slices.take(n_entries * job.n_heads);
  }
  float* const own = slices.take((each + finish) * stream.n_threads());
  stream.pool()->run(job.n_runs, [&](int64_t run, int32_t thread) {
    float* score = own + (each + finish) * thread;
    attend_run(job, run, score, score + each / 2, runs[static_cast<size_t>(run)]);
  });
  stream.pool()->run(h, [&](int64_t head, int32_t thread) {
    finish_head(job, runs, head, own + (each + finish) * thread + each,
                p.out.as<float>() + (b * h + head) * job.set->d_content);
  });
  int64_t n_coded = 0;
  for (const RunSums& run : runs) n_coded += run.n_rows;
  p.n_coded.as<int64_t>()[b] = n_coded;
  return {};
}

Status attend(const AttendCodesParams& p, Stream& stream) {
  for (int64_t b = 0; b < p.q.dim(0); ++b) VESTIGE_TRY(attend_sequence(p, b, stream));
  return {};
}

}  // namespace
}  // namespace vestige::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(attend);

Status attend_codes(const AttendCodesParams& p, Stream& stream) { return HWY_DYNAMIC_DISPATCH(attend)(p, stream); }

}  // namespace vestige::cpu
#endif  // HWY_ONCE
