#pragma once

// A transform, stages and coded rows for the tests of codes.h, and what the bytes of a code say, read back by the
// contract's words and in float64.

#include "tests/backend/codes_cases.h"
#include "tests/backend/rows_fixture.h"

namespace vestige::test {

struct Transform {
  int64_t d = 0, n_groups = 0, rank = 0;
  Floats mean, forward, dual, metric, white, ridge, variance;

  Transform() = default;
  Transform(int64_t d_in, int64_t groups, int64_t rank_in)
      : d(d_in),
        n_groups(groups),
        rank(rank_in),
        mean(size(d)),
        forward(size(d * d)),
        dual(size(d * d)),
        metric(size(groups * rank * d)),
        white(size(groups * rank * d)),
        ridge(size(groups)),
        variance(size(d)) {}
  static size_t size(int64_t n) { return static_cast<size_t>(n); }

  RowTransform view() const {
    RowTransform t;
    t.mean = {mean.data(), DType::kF32, {d}};
    t.forward = {forward.data(), DType::kF32, {d, d}};
    t.dual = {dual.data(), DType::kF32, {d, d}};
    t.metric = {metric.data(), DType::kF32, {n_groups, rank, d}};
    t.white = {white.data(), DType::kF32, {n_groups, rank, d}};
    t.ridge = {ridge.data(), DType::kF32, {n_groups}};
    return t;
  }
  FitTransformParams params(const Floats& q, int64_t h, const Floats& rows, const Floats& gram = {}) {
    FitTransformParams p;
    const auto n = static_cast<int64_t>(q.size()) / (h * d), m = static_cast<int64_t>(rows.size()) / d;
    p.queries = {q.data(), DType::kF32, {n, h, d}};
    p.rows = {rows.data(), DType::kF32, {m, d}};
    if (!gram.empty()) {
      const auto c = static_cast<int64_t>(std::lround(std::sqrt(double(gram.size()))));
      p.value_gram = {gram.data(), DType::kF32, {c, c}};
    }
    p.mean = {mean.data(), DType::kF32, {d}};
    p.forward = {forward.data(), DType::kF32, {d, d}};
    p.dual = {dual.data(), DType::kF32, {d, d}};
    p.metric = {metric.data(), DType::kF32, {n_groups, rank, d}};
    p.white = {white.data(), DType::kF32, {n_groups, rank, d}};
    p.ridge_out = {ridge.data(), DType::kF32, {n_groups}};
    p.variance = {variance.data(), DType::kF32, {d}};
    return p;
  }
  /// a [.., d] row r times x.
  double dot(const Floats& a, int64_t r, const std::vector<double>& x) const {
    double sum = 0;
    for (int64_t k = 0; k < d; ++k) sum += double(a[size(r * d + k)]) * x[size(k)];
    return sum;
  }
  double norm(int64_t g, const std::vector<double>& e) const {
    double square = 0;
    for (const double x : e) square += x * x * double(ridge[size(g)]);
    for (int64_t r = 0; r < rank; ++r) square += std::pow(dot(metric, g * rank + r, e), 2);
    return std::sqrt(square);
  }
  std::vector<double> forward_of(const std::vector<double>& x) const {
    std::vector<double> centred(x), t(x.size());
    for (size_t k = 0; k < x.size(); ++k) centred[k] -= double(mean[k]);
    for (int64_t j = 0; j < d; ++j) t[size(j)] = dot(forward, j, centred);
    return t;
  }
  std::vector<double> dual_of(const float* q) const {
    const std::vector<double> x(q, q + d);
    std::vector<double> y(x.size());
    for (int64_t j = 0; j < d; ++j) y[size(j)] = dot(dual, j, x);
    return y;
  }
};

/// One CodeStage and its memory. Entries of one width come in falling order of coordinate: any order is right.
struct Stage {
  std::vector<int32_t> bits, coord, shift;
  Floats step, weight;
  CodeStage view;

  Stage(std::vector<int32_t> bits_in, const Floats& step_in, float norm_base)
      : bits(std::move(bits_in)), step(step_in) {
    bits.resize(step.size());
    for (int w = 0; w < 3; ++w) {
      const int32_t width = 4 >> w, per_unit = 32 / width;
      std::vector<std::pair<int32_t, int32_t>> pieces;  // coordinate, shift
      for (size_t j = bits.size(); j-- > 0;) {
        const int32_t b = bits[j];
        const int32_t n = w == 0 ? b / 4 : w == 1 ? b % 4 / 2 : b % 2, low = w == 0 ? b % 4 : w == 1 ? b % 2 : 0;
        for (int32_t i = 0; i < n; ++i) pieces.emplace_back(static_cast<int32_t>(j), low + i * width);
      }
      view.n_units[w] = (static_cast<int32_t>(pieces.size()) + per_unit - 1) / per_unit;
      pieces.resize(static_cast<size_t>(view.n_units[w] * per_unit), {-1, 0});
      for (const auto& [j, s] : pieces) {
        coord.push_back(j);
        shift.push_back(s);
        weight.push_back(j < 0 ? 0.0f : step[static_cast<size_t>(j)] * static_cast<float>(1 << s));
      }
    }
    const auto n = static_cast<int64_t>(coord.size()), d = static_cast<int64_t>(bits.size());
    view.coord = {coord.data(), DType::kI32, {n}};
    view.shift = {shift.data(), DType::kI32, {n}};
    view.weight = {weight.data(), DType::kF32, {n}};
    view.bits = {bits.data(), DType::kI32, {d}};
    view.step = {step.data(), DType::kF32, {d}};
    view.norm_base = norm_base;
  }
  Stage(const Stage&) = delete;
  Stage(Stage&&) = default;
  int64_t n_units() const { return int64_t{view.n_units[0]} + view.n_units[1] + view.n_units[2]; }
};

/// A row's bytes in one stage, by the contract.
struct CodeBytes {
  const uint8_t* at;
  int64_t lane, lanes, n_units;

  CodeBytes(const Stage& stage, int64_t s, const uint8_t* page, int64_t row, int64_t n_groups)
      : n_units(stage.n_units()) {
    const int64_t row_bytes = stage.view.row_bytes(n_groups);
    lanes = s == 0 ? 16 : 1;
    lane = row % lanes;
    at = page + row / lanes * lanes * row_bytes;
  }
  uint8_t norm(int64_t g) const { return at[4 * n_units * lanes + g * lanes + lane]; }
  std::vector<int32_t> codes(const Stage& stage) const {
    std::vector<int32_t> out(stage.bits.size());
    int64_t unit = 0;
    size_t e = 0;
    for (int w = 0; w < 3; ++w) {
      const int width = 4 >> w;
      for (int32_t u = 0; u < stage.view.n_units[w]; ++u, ++unit) {
        for (int i = 0; i < 32 / width; ++i, ++e) {
          const int piece = at[(unit * lanes + lane) * 4 + i % 4] >> (width * (i / 4)) & ((1 << width) - 1);
          if (stage.coord[e] < 0) {
            EXPECT_EQ(piece, 0);
          } else {
            out[static_cast<size_t>(stage.coord[e])] |= piece << stage.shift[e];
          }
        }
      }
    }
    return out;
  }
  std::vector<double> values(const Stage& stage) const {
    const std::vector<int32_t> code = codes(stage);
    std::vector<double> out(code.size());
    for (size_t j = 0; j < code.size(); ++j) {
      if (stage.bits[j] > 0) out[j] = double(stage.step[j]) * (code[j] - 0.5 * ((1 << stage.bits[j]) - 1));
    }
    return out;
  }
};

inline double grid_value(float base, uint8_t byte) {
  return byte == 255 ? INFINITY : double(base) * std::exp2(byte / 16.0);
}

/// Rows of one sequence with their transform, stages and codes.
struct CodedRows {
  RowLayout layout;
  int64_t n = 0, page_rows = 0;
  Floats values;  // [n, d], as stored
  Transform transform;
  std::vector<Stage> stages;
  std::vector<CodeStage> views;
  std::vector<std::vector<uint8_t>> pages[2], value;
  std::vector<const void*> tables[2], value_table;
  float value_base = 1e-4f, max_norm[2] = {0, 0};
  std::vector<uint8_t> kept;

  int64_t d() const { return layout.d_row(); }
  std::vector<double> row(int64_t u) const { return {values.begin() + u * d(), values.begin() + (u + 1) * d()}; }

  void encode(Stream& s) {
    const Rows rows(values, {layout, n, page_rows, false});
    const RowPages p = rows.pages();
    views.clear();
    for (const Stage& stage : stages) views.push_back(stage.view);
    for (int i = 0; i < 2; ++i) pages[i].clear(), tables[i].clear(), max_norm[i] = 0;
    value.clear(), value_table.clear();
    for (int64_t page = 0; page * page_rows < n; ++page) {
      const int64_t m = std::min(page_rows, n - page * page_rows), padded = (m + 15) / 16 * 16;
      EncodeRowsParams e;
      e.content = {p.content[page], layout.dtype, {m, layout.d_content}};
      if (layout.d_branch > 0) e.branch = {p.branch[page], layout.dtype, {m, layout.d_branch}};
      e.transform = transform.view();
      e.stages = views;
      for (size_t i = 0; i < stages.size(); ++i) {
        const int64_t row_bytes = views[i].row_bytes(transform.n_groups);
        pages[i].emplace_back(static_cast<size_t>(padded * row_bytes), uint8_t{0xee});
        e.codes[i] = {pages[i].back().data(), DType::kU8, {padded, row_bytes}};
      }
      value.emplace_back(static_cast<size_t>(m));
      e.value_norm = {value.back().data(), DType::kU8, {m}};
      e.value_base = value_base;
      float most[2] = {-1, -1};
      e.max_norm = {most, DType::kF32, {2}};
      EXPECT_TRUE(ok(ops::encode_rows(e, s)));
      for (int i = 0; i < 2; ++i) max_norm[i] = std::max(max_norm[i], most[i]);
    }
    for (size_t i = 0; i < stages.size(); ++i) {
      for (const auto& page : pages[i]) tables[i].push_back(page.data());
    }
    for (const auto& page : value) value_table.push_back(page.data());
  }
  CodeBytes bytes(size_t s, int64_t u) const {
    return {stages[s], static_cast<int64_t>(s), pages[s][static_cast<size_t>(u / page_rows)].data(), u % page_rows,
            transform.n_groups};
  }
  CodeSet set() const {
    CodeSet set;
    set.transform = transform.view();
    set.stages = views;
    for (size_t i = 0; i < stages.size(); ++i) set.pages.codes[i] = tables[i].data();
    set.pages.value_norm = value_table.data();
    set.pages.page_rows = page_rows;
    set.pages.n_rows = n;
    set.kept = kept.empty() ? nullptr : kept.data();
    set.d_content = layout.d_content;
    set.max_row_norm = max_norm[0];
    return set;
  }
};

/// Numbers as a row dtype holds them.
inline Floats as_stored(Floats x, DType dtype) {
  if (dtype == DType::kBF16) {
    for (float& v : x) v = bf16_to_f32(f32_to_bf16(v));
  }
  return x;
}

/// Correlated vectors of falling variance.
inline Floats spread(int64_t n, int64_t d, uint64_t seed) {
  Floats x = numbers(n * d, seed);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = d - 1; k >= 0; --k) {
      float& v = x[static_cast<size_t>(i * d + k)];
      v = v * std::pow(0.93f, static_cast<float>(k)) + (k > 0 ? 0.5f * x[static_cast<size_t>(i * d + k - 1)] : 0.3f);
    }
  }
  return x;
}

/// Coded rows of a case, the transform fitted by ref so that every backend gets the same one.
inline CodedRows coded_rows(const CodesCase& c, uint64_t seed, Stream& s) {
  CodedRows r;
  r.layout = {.d_content = c.d_content, .d_branch = c.d_branch, .dtype = c.dtype};
  r.n = c.n_rows;
  r.page_rows = c.page_rows;
  r.values = as_stored(spread(c.n_rows, r.d(), seed), c.dtype);
  r.transform = Transform(r.d(), c.n_groups, c.rank);
  const Floats q = spread(20, c.h * r.d(), seed + 1), sample = spread(200, r.d(), seed);
  EXPECT_TRUE(ok(ops::fit_transform(r.transform.params(q, c.h, sample), *stream("ref"))));
  Floats step;
  for (const float v : r.transform.variance) step.push_back(std::max(1e-6f, 0.7f * std::sqrt(v)));
  for (size_t j = 0; j < c.bits.size(); ++j) step[j] *= std::exp2(1.0f - static_cast<float>(c.bits[j]));
  r.stages.emplace_back(c.bits, step, 1e-5f);
  for (float& v : step) v *= 0.3f;
  if (!c.refine.empty()) r.stages.emplace_back(c.refine, step, 1e-6f);
  for (int64_t u = 0; u < r.n; ++u) r.kept.push_back(u % 7 == 3 ? 1 : 0);
  r.encode(s);
  return r;
}

}  // namespace vestige::test
