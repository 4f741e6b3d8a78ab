// The recall tier: Eq. 4 against float64, overflow, the provisional index, and a planted row.

#include <set>

#include "tests/cache/cache_fixture.h"

namespace vestige::testing {
namespace {

/// What Eq. 4 says of every archived row, evaluated in float64 from the saved index.
struct Fired {
  std::vector<int64_t> surely, maybe;  ///< score above the threshold by more than 1e-5; or within 1e-5 of it
};

class RecallTest : public ::testing::TestWithParam<Shape> {
 protected:
  const Shape& shape() const { return GetParam(); }
  const RowLayout& layout() const { return shape().layout; }
  int64_t d() const { return layout().d_row(); }

  /// z_max, or where the bound is Cauchy-Schwarz's.
  float largest_z() const { return std::min(8.0f, std::sqrt(static_cast<float>(layout().d_content - 16))); }

  /// Head's best true score over the kept rows.
  double kept_max(const LayerCache& cache, const std::vector<float>& rows, const float* q) const {
    double max = -INFINITY;
    for (int32_t u : cache.kept_ids()) {
      max = std::max(max, true_score(q, rows.data() + u * d(), d(), static_cast<double>(shape().scale())));
    }
    return max;
  }

  float round_branch(float x) const { return layout().dtype == DType::kF32 ? x : bf16_to_f32(f32_to_bf16(x)); }

  Fired fired_f64(const LayerCache& cache, const std::vector<float>& rows, const float* q) const {
    const MemoryStore store = saved(cache);
    const auto basis = store.values<float>("basis");
    const double z = store.values<float>("z")[0];
    const int64_t dc = layout().d_content, r = static_cast<int64_t>(basis.size()) / dc;
    // idx[h] weights: V applied to query and row; residuals from explicit projections, all float64.
    const auto project = [&](const float* x) {
      std::vector<double> p(static_cast<size_t>(r));
      for (int64_t j = 0; j < r; ++j) p[static_cast<size_t>(j)] = true_score(x, basis.data() + j * dc, dc, 1);
      return p;
    };
    const auto residual = [&](const float* x, const std::vector<double>& p) {
      double sum = 0;
      for (int64_t k = 0; k < dc; ++k) {
        double left = x[k];
        for (int64_t j = 0; j < r; ++j)
          left -= p[static_cast<size_t>(j)] * static_cast<double>(basis[static_cast<size_t>(j * dc + k)]);
        sum += left * left;
      }
      return std::sqrt(sum);
    };
    const auto half = [](double x) { return static_cast<double>(f16_to_f32(f32_to_f16(static_cast<float>(x)))); };
    std::map<int64_t, double> margin;  // best score minus threshold over heads
    for (int32_t head = 0; head < shape().h_q; ++head) {
      const float* qh = q + head * d();
      const double threshold = kept_max(cache, rows, qh);
      const std::vector<double> qp = project(qh);
      const double q_residual = residual(qh, qp);
      const std::vector<int32_t> kept = cache.kept_ids();
      for (int64_t u = 0; u < cache.n_closed(); ++u) {
        if (std::binary_search(kept.begin(), kept.end(), static_cast<int32_t>(u))) continue;
        const float* row = rows.data() + u * d();
        const std::vector<double> rp = project(row);
        double idx = 0;
        for (int64_t j = 0; j < r; ++j) idx += half(qp[static_cast<size_t>(j)]) * half(rp[static_cast<size_t>(j)]);
        for (int64_t k = dc; k < d(); ++k) idx += static_cast<double>(round_branch(qh[k])) * row[k];
        const double cert = r == dc ? 0 : q_residual * residual(row, rp) / std::sqrt(static_cast<double>(dc - r));
        const double over = static_cast<double>(shape().scale()) * (idx + z * cert) - threshold;
        margin.try_emplace(u, -INFINITY);
        margin[u] = std::max(margin[u], over);
      }
    }
    Fired fired;
    for (const auto& [u, over] : margin) {
      if (over > 1e-5) fired.surely.push_back(u);
      if (std::abs(over) <= 1e-5) fired.maybe.push_back(u);
    }
    return fired;
  }
};

TEST_P(RecallTest, RecallsWhatEquation4Says) {
  auto s = make_stream();
  const int64_t n = 6 * shape().block_rows + 10;
  const std::vector<float> rows = make_rows(n, layout()), queries = make_queries(40, shape().h_q, layout());
  auto c = make_cache(shape(), "vestige", 8, paper_settings({{"sketch_rank", 16}}));
  VESTIGE_ASSERT_OK(c->append(view_rows(rows, layout(), 0, n), *s));
  VESTIGE_ASSERT_OK(fit(*c, queries, *s));
  const std::vector<float> live = make_queries(12, shape().h_q, layout(), 3);
  int64_t n_recalled = 0, n_archived = 0;
  for (int64_t i = 0; i < 12; ++i) {
    const float* q = live.data() + i * shape().h_q * d();
    const Attended a = attend(*c, q, *s);
    const Fired want = fired_f64(*c, rows, q);
    n_recalled += a.record.n_recalled;
    n_archived += a.record.n_archived;
    ASSERT_GE(a.record.n_recalled, static_cast<int64_t>(want.surely.size()));
    ASSERT_LE(a.record.n_recalled, static_cast<int64_t>(want.surely.size() + want.maybe.size()));
    if (!want.maybe.empty()) continue;  // which rows joined is not certain then
    std::vector<int64_t> ids = kept_and_tail(*c);
    ids.insert(ids.end(), want.surely.begin(), want.surely.end());
    expect_attends(a, q, rows, ids, shape());
  }
  EXPECT_GT(n_recalled, 0);
  EXPECT_LT(n_recalled, n_archived);
}

// z makes the calibration queries' best archived rows fire about as often as tau asks: the order statistic of
// the float64 z values is the z of the index.
TEST_P(RecallTest, CalibratesToTheOrderStatistic) {
  auto s = make_stream();
  const int64_t n = 5 * shape().block_rows, n_queries = 30;
  const std::vector<float> rows = make_rows(n, layout()), queries = make_queries(n_queries, shape().h_q, layout());
  auto c = make_cache(shape(), "vestige", 8, paper_settings({{"sketch_rank", 16}}));
  VESTIGE_ASSERT_OK(c->append(view_rows(rows, layout(), 0, n), *s));
  VESTIGE_ASSERT_OK(fit(*c, queries, *s));
  const MemoryStore store = saved(*c);
  const auto basis = store.values<float>("basis");
  const auto sketch = store.values<uint16_t>("sketch");
  const auto residual = store.values<float>("residual");
  const std::vector<int32_t> kept = c->kept_ids();
  const int64_t dc = layout().d_content, r = 16;
  std::vector<double> needed;
  for (int64_t i = 0; i < n_queries * shape().h_q; ++i) {
    const float* q = queries.data() + i * d();
    const int64_t position = n - n_queries + i / shape().h_q;
    int64_t t = -1;
    double best = -INFINITY;
    for (int64_t u = 0; u <= position; ++u) {  // causal
      if (std::binary_search(kept.begin(), kept.end(), static_cast<int32_t>(u))) continue;
      const double score = true_score(q, rows.data() + u * d(), d(), 1);
      if (score > best) best = score, t = u;
    }
    ASSERT_GE(t, 0);
    double idx = 0, left = true_score(q, q, dc, 1);
    for (int64_t j = 0; j < r; ++j) {
      const double p = true_score(q, basis.data() + j * dc, dc, 1);
      left -= p * p;
      idx += static_cast<double>(f16_to_f32(f32_to_f16(static_cast<float>(p)))) *
             static_cast<double>(f16_to_f32(sketch[static_cast<size_t>(t * r + j)]));
    }
    for (int64_t k = dc; k < d(); ++k)
      idx += static_cast<double>(round_branch(q[k])) * rows[static_cast<size_t>(t * d() + k)];
    needed.push_back((best - idx) / (std::sqrt(left / static_cast<double>(dc - r)) *
                                     static_cast<double>(residual[static_cast<size_t>(t)])));
  }
  std::sort(needed.begin(), needed.end());
  const auto k = static_cast<size_t>((18 * (static_cast<int64_t>(needed.size()) + 1) + 18) / 19);
  ASSERT_LE(k, needed.size());
  EXPECT_NEAR(store.values<float>("z")[0], std::clamp(needed[k - 1], 0.0, double(largest_z())), 1e-3);
}

TEST_P(RecallTest, OverflowAttendsTheWholeArchive) {
  auto s = make_stream();
  const int64_t n = 4 * shape().block_rows + 3;
  const std::vector<float> rows = make_rows(n, layout()), q = make_queries(1, shape().h_q, layout());
  auto c = make_cache(shape(), "vestige", 8, paper_settings({{"max_recall", 1}, {"sketch_rank", 4}}));
  VESTIGE_ASSERT_OK(c->append(view_rows(rows, layout(), 0, n), *s));
  const Attended a = attend(*c, q.data(), *s);  // never fitted: z is at its largest
  ASSERT_EQ(a.record.n_overflowed, 1);
  EXPECT_EQ(a.record.n_recalled, a.record.n_archived);
  EXPECT_GE(a.record.read_bytes, a.record.full_bytes);
  expect_attends(a, q.data(), rows, all_ids(n), shape());
}

TEST_P(RecallTest, NoRecallIfTurnedOff) {
  auto s = make_stream();
  const int64_t n = 4 * shape().block_rows + 3;
  const std::vector<float> rows = make_rows(n, layout()), q = make_queries(1, shape().h_q, layout());
  auto c = make_cache(shape(), "vestige", 8, paper_settings({{"max_recall", 0}}));
  VESTIGE_ASSERT_OK(c->append(view_rows(rows, layout(), 0, n), *s));
  VESTIGE_ASSERT_OK(fit(*c, q, *s));
  const Attended a = attend(*c, q.data(), *s);
  EXPECT_EQ(a.record.n_recalled, 0);
  EXPECT_EQ(c->bytes().index, 0);
  expect_attends(a, q.data(), rows, kept_and_tail(*c), shape());
}

// A needle: an archived row that one query wants above all others.
TEST_P(RecallTest, RecallsAPlantedRow) {
  auto s = make_stream();
  const int64_t n = 6 * shape().block_rows + 10;
  std::vector<float> rows = make_rows(n, layout());
  const std::vector<float> queries = make_queries(40, shape().h_q, layout());
  std::vector<float> q = make_queries(1, shape().h_q, layout(), 11);
  const int64_t planted = 2 * shape().block_rows + 7;
  // The branch stays on the slow curve of its neighbours, so that the selector leaves the row in the archive.
  for (int64_t k = 0; k < d(); ++k) {
    const int64_t from = k < layout().d_content ? -1 : planted - 1;
    float& x = rows[static_cast<size_t>(planted * d() + k)];
    x = from < 0 ? 4 * q[static_cast<size_t>(k)] : rows[static_cast<size_t>(from * d() + k)];
    if (layout().dtype == DType::kBF16) x = bf16_to_f32(f32_to_bf16(x));
  }
  auto with = make_cache(shape(), "vestige", 16, paper_settings({{"sketch_rank", 16}}));
  auto without = make_cache(shape(), "vestige", 16, paper_settings({{"max_recall", 0}})),
       full = make_cache(shape(), "full");
  for (LayerCache* c : {with.get(), without.get(), full.get()}) {
    VESTIGE_ASSERT_OK(c->append(view_rows(rows, layout(), 0, n), *s));
    VESTIGE_ASSERT_OK(fit(*c, queries, *s));
  }
  const std::vector<int32_t> kept = with->kept_ids();
  ASSERT_FALSE(std::binary_search(kept.begin(), kept.end(), static_cast<int32_t>(planted)));
  const Attended recalled = attend(*with, q.data(), *s), evicted = attend(*without, q.data(), *s);
  const Attended want = attend(*full, q.data(), *s);
  EXPECT_GE(recalled.record.n_recalled, 1);
  EXPECT_LT(recalled.record.n_recalled, recalled.record.n_archived / 2);
  EXPECT_GT(want.lse[0], evicted.lse[0] + 1);
  double near = 0, far = 0;  // of head 0's output, to full attention's
  for (size_t k = 0; k < static_cast<size_t>(layout().d_content); ++k) {
    near += std::abs(static_cast<double>(recalled.out[k] - want.out[k]));
    far += std::abs(static_cast<double>(evicted.out[k] - want.out[k]));
  }
  EXPECT_LT(near, 0.05 * far);
}

// The provisional index of a cache that was never fitted is replaced by a fit, and survives a save.
TEST_P(RecallTest, ProvisionalIndex) {
  auto s = make_stream();
  const int64_t b = shape().block_rows;
  const std::vector<float> rows = make_rows(6 * b, layout()), q = make_queries(30, shape().h_q, layout());
  auto c = make_cache(shape(), "vestige", 8, paper_settings({{"sketch_rank", 16}}));
  VESTIGE_ASSERT_OK(c->append(view_rows(rows, layout(), 0, 3 * b), *s));
  EXPECT_EQ(c->bytes().index, 0);
  attend(*c, q.data(), *s);
  MemoryStore store = saved(*c);
  EXPECT_EQ(store.values<float>("z")[0], largest_z());
  EXPECT_EQ(store.values<float>("basis")[0], 1.0f);
  auto loaded = make_cache(shape(), "vestige", 8, paper_settings({{"sketch_rank", 16}}));
  VESTIGE_ASSERT_OK(loaded->load("", store));
  for (LayerCache* each : {c.get(), loaded.get()}) {
    VESTIGE_ASSERT_OK(each->append(view_rows(rows, layout(), 3 * b, 2 * b), *s));
  }
  EXPECT_TRUE(same_bits(attend(*c, q.data(), *s).out, attend(*loaded, q.data(), *s).out));
  VESTIGE_ASSERT_OK(fit(*c, q, *s));
  store = saved(*c);
  EXPECT_LT(store.values<float>("z")[0], largest_z());
  EXPECT_EQ(store.tensors.at("sketch").shape, (std::vector<int64_t>{5 * b, 16}));
}

// While no block is closed there is nothing to index, nor to store; the first step with an archive builds a provisional
// index, as if there had been no fit.
TEST_P(RecallTest, FitBeforeTheFirstBlock) {
  auto s = make_stream();
  const int64_t b = shape().block_rows;
  const std::vector<float> rows = make_rows(4 * b, layout()), q = make_queries(30, shape().h_q, layout());
  for (const auto& settings : {paper_settings({{"sketch_rank", 16}}), std::map<std::string, double>()}) {
    std::vector<std::unique_ptr<LayerCache>> caches;
    for (const bool fitted : {true, false}) {
      caches.push_back(make_cache(shape(), "vestige", 8, settings));
      LayerCache& c = *caches.back();
      VESTIGE_ASSERT_OK(c.append(view_rows(rows, layout(), 0, b - 1), *s));
      if (fitted) VESTIGE_ASSERT_OK(fit(c, q, *s));
      EXPECT_EQ(c.bytes().index, 0);
      EXPECT_FALSE(saved(c).tensors.contains("z"));
      VESTIGE_ASSERT_OK(c.append(view_rows(rows, layout(), b - 1, 2 * b), *s));
    }
    EXPECT_TRUE(same_bits(attend(*caches[0], q.data(), *s).out, attend(*caches[1], q.data(), *s).out));
    EXPECT_GT(caches[0]->bytes().index, 0);
    EXPECT_TRUE(saved(*caches[0]).tensors.contains("z"));
  }
}

// Pitfall 27: another prompt gives another basis.
TEST_P(RecallTest, BasisIsOfThisPrompt) {
  auto s = make_stream();
  const std::vector<float> rows = make_rows(2 * shape().block_rows, layout());
  std::vector<float> basis[2];
  for (uint64_t i = 0; i < 2; ++i) {
    auto c = make_cache(shape(), "vestige", 8, paper_settings({{"sketch_rank", 16}}));
    VESTIGE_ASSERT_OK(c->append(view_rows(rows, layout(), 0, 2 * shape().block_rows), *s));
    VESTIGE_ASSERT_OK(fit(*c, make_queries(30, shape().h_q, layout(), 20 + i), *s));
    basis[i] = saved(*c).values<float>("basis");
  }
  EXPECT_NE(basis[0], basis[1]);
}

INSTANTIATE_TEST_SUITE_P(Layouts, RecallTest,
                         ::testing::Values(Shape{{48, 16, DType::kF32}, 64, 3}, Shape{{48, 16, DType::kBF16}, 64, 2},
                                           Shape{{512, 64, DType::kBF16}, 64, 4}),
                         [](const auto& test) {
                           return std::string(dtype_name(test.param.layout.dtype)) +
                                  std::to_string(test.param.layout.d_content);
                         });

}  // namespace
}  // namespace vestige::testing
