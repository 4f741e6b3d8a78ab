// The entropy gate: theta against float64, when it disables itself, what a closed head means for a step, and that a
// loaded cache goes on as the saved one would have.

#include "cache/policies/vestige/entropy_gate.h"

#include <numeric>

#include "tests/cache/cache_fixture.h"

namespace vestige::testing {
namespace {

const Shape kShape = {{80, 16, DType::kF32}, 64, 3};
constexpr int64_t kQueries = 40;

/// Entropy of the softmax of `scores`, and their largest, in float64.
struct Spread {
  double entropy = 0, most = -INFINITY;
  explicit Spread(const std::vector<double>& scores) {
    for (const double s : scores) most = std::max(most, s);
    double sum = 0;
    for (const double s : scores) sum += std::exp(s - most);
    for (const double s : scores) entropy -= std::exp(s - most) / sum * (s - most - std::log(sum));
  }
};

struct Scene {
  std::unique_ptr<Stream> stream = make_stream();
  int64_t n = 6 * kShape.block_rows;
  std::vector<float> rows = make_rows(n, kShape.layout), queries = make_queries(kQueries, kShape.h_q, kShape.layout);
  std::unique_ptr<LayerCache> cache;
  std::vector<uint8_t> kept = std::vector<uint8_t>(static_cast<size_t>(n));

  explicit Scene(std::map<std::string, double> settings = {{"gate", 1}}) {
    cache = make_cache(kShape, "vestige", 8, std::move(settings));
    EXPECT_TRUE(cache->append(view_rows(rows, kShape.layout, 0, n), *stream).ok());
    EXPECT_TRUE(fit(*cache, queries, *stream).ok());
    for (const int32_t u : cache->kept_ids()) kept[static_cast<size_t>(u)] = 1;
  }
  CodecQueries calibration() const {
    RowPages closed = cache->pages();
    return {.queries = ConstTensorView(queries.data(), DType::kF32, {kQueries, kShape.h_q, kShape.layout.d_row()}),
            .first_position = n - kQueries,
            .rows = closed,
            .kept = kept.data(),
            .scale = kShape.scale()};
  }
  /// Entropy over the kept rows of one head's query at a position, and whether its best row is archived.
  std::pair<double, bool> look(const float* q, int64_t position) const {
    std::vector<double> of[2];
    for (int64_t u = 0; u <= position; ++u) {
      of[kept[static_cast<size_t>(u)]].push_back(
          true_score(q, rows.data() + u * kShape.layout.d_row(), kShape.layout.d_row(), double(kShape.scale())));
    }
    const Spread on_kept(of[1]), on_archive(of[0]);
    return {on_kept.entropy, on_archive.most > on_kept.most};
  }
};

TEST(EntropyGate, ThetaIsTheOrderStatisticOfHardQueries) {
  const Scene scene;
  std::vector<double> hard, all;
  for (int64_t i = 0; i < kQueries * kShape.h_q; ++i) {
    const auto [entropy, is_hard] =
        scene.look(scene.queries.data() + i * kShape.layout.d_row(), scene.n - kQueries + i / kShape.h_q);
    all.push_back(entropy);
    if (is_hard) hard.push_back(entropy);
  }
  std::sort(hard.begin(), hard.end());
  ASSERT_GT(hard.size(), 19u);
  ASSERT_LT(hard.size(), all.size());
  for (const double tau : {0.9, 0.7, 0.5, 0.0001}) {
    EntropyGate gate(tau);
    VESTIGE_ASSERT_OK(gate.add(scene.calibration(), *scene.stream));
    const auto k = static_cast<size_t>(std::floor(double(hard.size() + 1) * (1 - tau) / 2));
    ASSERT_GE(k, 1u);
    const double theta = hard[k - 1];
    const auto n_open = std::count_if(all.begin(), all.end(), [&](double x) { return x >= theta - 1e-6; });
    EXPECT_EQ(gate.active(), double(n_open) <= 0.6 * double(all.size())) << tau;
    if (!gate.active()) continue;
    EXPECT_NEAR(double(gate.theta()), theta, 1e-5) << tau;
  }
}

TEST(EntropyGate, NeedsEnoughHardQueries) {
  EXPECT_EQ(EntropyGate(0.9).min_hard(), 19);
  EXPECT_EQ(EntropyGate(0.5).min_hard(), 3);
  const EntropyGate fresh(0.9);
  EXPECT_FALSE(fresh.active());
}

/// A store with these entropies, as save() writes them.
MemoryStore entropies(const std::vector<float>& hard, const std::vector<float>& easy) {
  MemoryStore store;
  EXPECT_TRUE(store.put("gate_hard", ConstTensorView(hard.data(), DType::kF32, {int64_t(hard.size())})).ok());
  EXPECT_TRUE(store.put("gate_easy", ConstTensorView(easy.data(), DType::kF32, {int64_t(easy.size())})).ok());
  return store;
}

TEST(EntropyGate, DisablesItselfWhenMostQueriesWouldPass) {
  std::vector<float> hard(19);
  std::iota(hard.begin(), hard.end(), 10.0f);
  EntropyGate gate(0.9);
  const std::vector<float> low(13, 1.0f), few(12, 1.0f);
  VESTIGE_ASSERT_OK(gate.load("", entropies(hard, low)));  // 19 of 32 pass
  EXPECT_TRUE(gate.active());
  EXPECT_EQ(gate.theta(), 10.0f);
  VESTIGE_ASSERT_OK(gate.load("", entropies(hard, few)));  // 19 of 31
  EXPECT_FALSE(gate.active());
  VESTIGE_ASSERT_OK(gate.load("", entropies({hard.begin(), hard.begin() + 18}, low)));
  EXPECT_FALSE(gate.active());
  EXPECT_EQ(gate.load("", entropies({NAN}, low)).code(), StatusCode::kDataLoss);
}

// A step in which every head is closed is attention to kept and tail rows, reads nothing else and certifies nothing.
TEST(EntropyGate, ClosedHeadsRecallNothing) {
  Scene scene({{"gate", 1}, {"tau", 0.5}, {"margin", -1}});
  auto open = make_cache(kShape, "vestige", 8, {{"gate", 0}, {"tau", 0.5}, {"margin", -1}});
  VESTIGE_ASSERT_OK(open->append(view_rows(scene.rows, kShape.layout, 0, scene.n), *scene.stream));
  VESTIGE_ASSERT_OK(fit(*open, scene.queries, *scene.stream));
  EntropyGate gate(0.5);
  VESTIGE_ASSERT_OK(gate.add(scene.calibration(), *scene.stream));
  ASSERT_TRUE(gate.active());
  const int64_t n_live = 60, d = kShape.layout.d_row();
  const std::vector<float> live = make_queries(n_live, kShape.h_q, kShape.layout, 5);
  int64_t n_all_closed = 0, n_some = 0;
  for (int64_t i = 0; i < n_live; ++i) {
    const float* q = live.data() + i * kShape.h_q * d;
    const Attended a = attend(*scene.cache, q, *scene.stream), b = attend(*open, q, *scene.stream);
    int64_t n_gated = 0;
    for (int64_t head = 0; head < kShape.h_q; ++head) {
      n_gated += scene.look(q + head * d, scene.n - 1).first < double(gate.theta()) ? 1 : 0;
    }
    ASSERT_EQ(a.record.n_gated, n_gated);
    EXPECT_EQ(b.record.n_gated, 0);
    EXPECT_LE(a.record.n_recalled, b.record.n_recalled);
    n_some += n_gated > 0 && n_gated < kShape.h_q ? 1 : 0;
    if (n_gated < kShape.h_q) continue;
    ++n_all_closed;
    EXPECT_EQ(a.record.n_recalled, 0);
    EXPECT_EQ(a.record.archive_bytes, 0);
    EXPECT_EQ(a.record.omitted_max, 1);
    expect_attends(a, q, scene.rows, kept_and_tail(*scene.cache), kShape);
  }
  EXPECT_GT(n_all_closed, 0);
  EXPECT_GT(n_some, 0);
}

// Saved between two refits and loaded, a cache refits at the same step to the same queries as one that went on.
TEST(EntropyGate, LoadedCacheGoesOnAsTheSavedOne) {
  const std::map<std::string, double> settings = {{"gate", 1}, {"tau", 0.5},  {"n_refit", 16},
                                                  {"rule", 1}, {"margin", 0}, {"quantile", 1}};
  for (const int64_t n_before : {int64_t{7}, int64_t{50}}) {
    Scene scene(settings);
    const int64_t d = kShape.layout.d_row(), n_live = 140;
    const std::vector<float> live = make_queries(n_live, kShape.h_q, kShape.layout, 5);
    const auto q = [&](int64_t i) { return live.data() + i * kShape.h_q * d; };
    for (int64_t i = 0; i < n_before; ++i) attend(*scene.cache, q(i), *scene.stream);
    const MemoryStore store = saved(*scene.cache);
    auto loaded = make_cache(kShape, "vestige", 8, settings);
    VESTIGE_ASSERT_OK(loaded->load("", store));
    for (int64_t i = n_before; i < n_live; ++i) {
      const Attended a = attend(*scene.cache, q(i), *scene.stream), b = attend(*loaded, q(i), *scene.stream);
      ASSERT_EQ(a.out, b.out) << i;
      ASSERT_EQ(a.record.n_recalled, b.record.n_recalled) << i;
      ASSERT_EQ(a.record.n_gated, b.record.n_gated) << i;
    }
    EXPECT_TRUE(saved(*scene.cache).tensors == saved(*loaded).tensors);
    EXPECT_NE(saved(*scene.cache).values<float>("z"), store.values<float>("z"));
  }
}

// Queries of another width in a file restart the window; what is saved after that loads again.
TEST(RefitState, OfAnotherShapeStartsAnew) {
  const std::map<std::string, double> settings = {{"n_refit", 16}};
  Scene scene(settings);
  const std::vector<float> live = make_queries(12, kShape.h_q, kShape.layout, 5);
  const auto q = [&](int64_t i) { return live.data() + i * kShape.h_q * kShape.layout.d_row(); };
  for (int64_t i = 0; i < 7; ++i) attend(*scene.cache, q(i), *scene.stream);
  MemoryStore store = saved(*scene.cache);
  store.tensors.at("refit_queries").shape = {7, 1, kShape.h_q * kShape.layout.d_row()};
  auto loaded = make_cache(kShape, "vestige", 8, settings);
  VESTIGE_ASSERT_OK(loaded->load("", store));
  for (int64_t i = 7; i < 12; ++i) attend(*loaded, q(i), *scene.stream);
  const MemoryStore again = saved(*loaded);
  EXPECT_EQ(again.values<int64_t>("refit_steps")[0], 5);
  VESTIGE_ASSERT_OK(make_cache(kShape, "vestige", 8, settings)->load("", again));
}

TEST(RefitState, SamplesMustBeNumbers) {
  Scene scene(std::map<std::string, double>{});
  MemoryStore store = saved(*scene.cache);
  const float nan = NAN;
  std::memcpy(store.tensors.at("z_samples0").bytes.data(), &nan, sizeof nan);
  EXPECT_EQ(make_cache(kShape, "vestige", 8)->load("", store).code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace vestige::testing
