#include "backend/cpu/code_query.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/gemv.h"
#include "backend/ops/code_entries.h"

namespace vestige::cpu {

namespace {

constexpr int64_t kGemvRows = 64;

/// Entries begin .. end - 1 of one head as integers of at most `limit`; four of them make a strip.
struct Quantise {
  const CodeStage& stage;
  const float* dual;
  float scale;
  CodeDot dot;
  int32_t begin, end;

  float weight(int32_t e) const {
    const int32_t coord = stage.coord.as<int32_t>()[e];
    return coord < 0 ? 0.0f : scale * dual[coord] * stage.weight.as<float>()[e];
  }

  /// The value of one unit; NaN or infinity if a weight is not finite.
  float unit(float limit) const {
    float most = 0;
    for (int32_t e = begin; e < end; ++e) {
      const float w = std::abs(weight(e));
      if (!(w <= most)) most = w;
      if (std::isnan(w)) return w;
    }
    return most / limit;
  }

  /// Middle of an entry's range: 7.5, 1.5 or 0.5.
  float middle(int32_t e) const {
    const int32_t n4 = 8 * stage.n_units[0], n2 = 16 * stage.n_units[1];
    return entry_middle(e < n4 ? 4 : e < n4 + n2 ? 2 : 1);
  }

  /// Calls put(strip, byte, integer) and adds up what rounding may move a score by, and the sum's middle.
  template <class Put>
  void run(float step, float limit, double* rounding, double* centre, const Put& put) const {
    const float inverse = step > 0 ? 1 / step : 0;
    float error = 0, sum = 0;
    for (int32_t e = begin; e < end; ++e) {
      const float w = weight(e), m = middle(e);
      const auto value = static_cast<int32_t>(std::lrint(std::clamp(w * inverse, -limit, limit)));
      const float rounded = static_cast<float>(value) * step;
      error += std::abs(w - rounded) * m;
      sum += static_cast<float>(value) * m;
      put((e - begin) / 4, e % 4, value);
    }
    *rounding += double(error);
    *centre += double(sum) * double(step);
  }
};

void put_byte(uint32_t* word, int32_t byte, int32_t value) {
  *word |= (static_cast<uint32_t>(value) & 0xffu) << (8 * byte);
}

void put_pair(uint32_t* even_odd, int32_t byte, int32_t value) {
  even_odd[byte % 2 * kCodePack] |= (static_cast<uint32_t>(value) & 0xffffu) << (16 * (byte / 2));
}

/// Integer weights of one head; returns what their rounding may move a score by.
double quantise(const CodeStage& s, const float* dual, float scale, CodeDot dot, const StageWeights& out, int64_t lane,
                double offset) {
  // 32512 = 127 * 256: the high byte of a rounded weight stays a signed byte.
  constexpr float kWide = 32512, kNarrow = 127;
  const int32_t n4 = 8 * s.n_units[0];
  const Quantise wide = {s, dual, scale, dot, 0, n4}, narrow = {s, dual, scale, dot, n4, s.n_entries()};
  const float wide_step = wide.unit(kWide), narrow_step = narrow.unit(kNarrow);
  if (!std::isfinite(wide_step) || !std::isfinite(narrow_step)) {
    out.offset[lane] = std::numeric_limits<float>::quiet_NaN();
    return 0;
  }
  double rounding = 0, centre = 0;
  wide.run(wide_step, kWide, &rounding, &centre, [&](int64_t strip, int32_t byte, int32_t value) {
    uint32_t* word = out.wide + strip * 2 * kCodePack + lane;
    if (dot == CodeDot::kPairs) return put_pair(word, byte, value);
    const int32_t low = static_cast<int8_t>(value & 0xff);
    put_byte(word, byte, (value - low) / 256);
    put_byte(word + kCodePack, byte, low);
  });
  narrow.run(narrow_step, kNarrow, &rounding, &centre, [&](int64_t strip, int32_t byte, int32_t value) {
    if (dot == CodeDot::kPairs) return put_pair(out.narrow + strip * 2 * kCodePack + lane, byte, value);
    put_byte(out.narrow + strip * kCodePack + lane, byte, value);
  });
  out.wide_scale[lane] = wide_step;
  out.narrow_scale[lane] = narrow_step;
  out.offset[lane] = static_cast<float>(offset - centre);
  return rounding * 1.0001;
}

double dot(const float* a, const float* b, int64_t n) {
  double sums[4] = {};
  int64_t k = 0;
  for (; k + 4 <= n; k += 4) {
    for (int i = 0; i < 4; ++i) sums[i] += double(a[k + i]) * double(b[k + i]);
  }
  for (; k < n; ++k) sums[0] += double(a[k]) * double(b[k]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void prepare_head(const CodeSet& set, const CodeQuery& query, const float* q, float scale, CodeDot kind, int64_t head) {
  const RowTransform& t = set.transform;
  const int64_t d = t.mean.dim(0), rank = t.metric.dim(1), group = head / (query.h / t.metric.dim(0));
  const float* dual = query.dual + head * d;
  float* white = query.white + head * rank;
  gemv_rows({.x = dual,
             .x_stride = d,
             .m = 1,
             .w = Weight::of(ConstTensorView(t.white.as<float>() + group * rank * d, DType::kF32, {rank, d}), {}),
             .row_begin = 0,
             .row_end = rank,
             .out = white,
             .out_stride = rank,
             .accumulate = false});
  const double square = dot(dual, dual, d) * (1 + kWhiteRounding) - dot(white, white, rank);
  const double norm = double(scale) * std::sqrt(std::max(0.0, square) / double(t.ridge.as<float>()[group])) * 1.00001;
  double slack = kCodeRounding * double(scale) * std::sqrt(dot(q, q, d)) * double(set.max_row_norm);
  const int64_t pack = head / kCodePack, lane = head % kCodePack;
  for (size_t s = 0; s < set.stages.size(); ++s) {
    const StageWeights& out = query.stage(pack, static_cast<int64_t>(s));
    const double offset = s == 0 ? double(scale) * dot(q, t.mean.as<float>(), d) : 0.0;
    slack += quantise(set.stages[s], dual, scale, kind, out, lane, offset);
    out.slack[lane] = static_cast<float>(slack * 1.00001);
    // A square that is not a number must not look like a bound of zero.
    out.norm[lane] = std::isnan(square) ? std::numeric_limits<float>::quiet_NaN()
                                        : static_cast<float>(norm * double(set.stages[s].norm_base));
  }
}

}  // namespace

int64_t StageWeights::strips(const CodeStage& s, bool wide) {
  return wide ? 2 * int64_t{s.n_units[0]} : 4 * int64_t{s.n_units[1]} + 8 * int64_t{s.n_units[2]};
}

int64_t StageWeights::floats(const CodeStage& s, CodeDot dot) {
  return line_floats(strips(s, true) * 2 * kCodePack) +
         line_floats(strips(s, false) * (dot == CodeDot::kBytes ? 1 : 2) * kCodePack) + 5 * line_floats(kCodePack);
}

void StageWeights::take(const CodeStage& s, CodeDot dot, Slices& slices) {
  n_wide = strips(s, true);
  n_narrow = strips(s, false);
  const int64_t n_wide_words = n_wide * 2 * kCodePack;
  const int64_t n_narrow_words = n_narrow * (dot == CodeDot::kBytes ? 1 : 2) * kCodePack;
  wide = reinterpret_cast<uint32_t*>(slices.take(n_wide_words));
  narrow = reinterpret_cast<uint32_t*>(slices.take(n_narrow_words));
  std::fill_n(wide, n_wide_words, 0u);
  std::fill_n(narrow, n_narrow_words, 0u);
  for (float** part : {&wide_scale, &narrow_scale, &offset, &slack, &norm}) {
    *part = slices.take(kCodePack);
    std::fill_n(*part, kCodePack, 0.0f);
  }
}

int64_t code_query_floats(const CodeSet& set, int64_t h, CodeDot dot) {
  const int64_t d = set.transform.mean.dim(0), rank = set.transform.metric.dim(1);
  int64_t n = line_floats(h * d) + line_floats(h * rank);
  for (const CodeStage& s : set.stages) n += ceil_div(h, kCodePack) * StageWeights::floats(s, dot);
  return n;
}

CodeQuery prepare_code_query(const CodeSet& set, const float* q, int64_t h, float scale, CodeDot dot, Slices& slices,
                             StageWeights* stages, ThreadPool& pool) {
  const int64_t d = set.transform.mean.dim(0), rank = set.transform.metric.dim(1);
  CodeQuery query;
  query.h = h;
  query.n_packs = ceil_div(h, kCodePack);
  query.dual = slices.take(h * d);
  query.white = slices.take(h * rank);
  query.stages = stages;
  for (int64_t pack = 0; pack < query.n_packs; ++pack) {
    for (size_t s = 0; s < set.stages.size(); ++s) stages[pack * 2 + int64_t(s)].take(set.stages[s], dot, slices);
  }
  pool.run(ceil_div(d, kGemvRows), [&](int64_t i, int32_t) {
    gemv_rows({.x = q,
               .x_stride = d,
               .m = h,
               .w = Weight::of(set.transform.dual, {}),
               .row_begin = i * kGemvRows,
               .row_end = std::min(d, (i + 1) * kGemvRows),
               .out = query.dual,
               .out_stride = d,
               .accumulate = false});
  });
  pool.run(h, [&](int64_t head, int32_t) { prepare_head(set, query, q + head * d, scale, dot, head); });
  return query;
}

}  // namespace vestige::cpu
