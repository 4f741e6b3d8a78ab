// Policies that rank rows by observed attention, and the selectors without queries: their scores against float64.

#include <functional>
#include <numbers>
#include <numeric>

#include "tests/cache/cache_fixture.h"

namespace vestige::testing {
namespace {

const Shape kShape = {{48, 16, DType::kBF16}, 64, 3};
constexpr int64_t kRows = 256, kTokens = 40;

class ObservedTest : public ::testing::Test {
 protected:
  int64_t d() const { return kShape.layout.d_row(); }
  const float* row(int64_t u) const { return rows_.data() + u * d(); }
  const float* query(int64_t i, int64_t head) const { return queries_.data() + (i * kShape.h_q + head) * d(); }

  /// Softmax of query i of a head over the rows it may see.
  std::vector<double> weights(int64_t i, int64_t head, int64_t n_seen) const {
    std::vector<double> w(kRows, 0.0);
    double sum = 0;
    for (int64_t u = 0; u < n_seen; ++u) {
      w[static_cast<size_t>(u)] = std::exp(true_score(query(i, head), row(u), d(), double(kShape.scale())));
      sum += w[static_cast<size_t>(u)];
    }
    for (double& x : w) x /= sum;
    return w;
  }

  /// Column sums of the last n_last of kTokens queries; `past`: they come after the document and see all of it.
  std::vector<double> mass(int64_t n_last, bool past = false) const {
    std::vector<double> sums(kRows, 0.0);
    for (int64_t i = kTokens - n_last; i < kTokens; ++i) {
      for (int64_t head = 0; head < kShape.h_q; ++head) {
        const std::vector<double> w = weights(i, head, past ? kRows : kRows - kTokens + i + 1);
        for (size_t u = 0; u < kRows; ++u) sums[u] += w[u];
      }
    }
    return sums;
  }

  std::vector<float> scores(const std::string& policy, std::map<std::string, double> settings = {}) {
    auto s = make_stream();
    cache_ = make_cache(kShape, policy, 8, std::move(settings));
    EXPECT_TRUE(cache_->append(view_rows(rows_, kShape.layout, 0, kRows), *s).ok());
    const Status status = observe(*cache_, queries_, *s, 7);
    EXPECT_TRUE(status.ok()) << status.message();
    return saved(*cache_).values<float>("score");
  }

  static void expect_near(const std::vector<float>& got, const std::vector<double>& want, double bound) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t u = 0; u < want.size(); ++u) ASSERT_NEAR(got[u], want[u], bound) << "row " << u;
  }

  std::vector<float> rows_ = make_rows(kRows, kShape.layout);
  std::vector<float> queries_ = make_queries(kTokens, kShape.h_q, kShape.layout);
  std::unique_ptr<LayerCache> cache_;
};

TEST_F(ObservedTest, H2oSumsColumns) {
  const std::vector<float> got = scores("h2o");
  expect_near(got, mass(kTokens), 2e-5);
  EXPECT_NEAR(std::accumulate(got.begin(), got.end(), 0.0), double(kShape.h_q * kTokens), 1e-4);  // heads x T
}

TEST_F(ObservedTest, H2oRecentSplitsTheBudget) {
  scores("h2o_recent");
  const std::vector<double> want = mass(kTokens);
  std::vector<int32_t> order(kRows - 16), kept;  // 256 / 8 = 32 rows: 16 recent, 16 heavy
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return want[size_t(a)] > want[size_t(b)]; });
  kept.assign(order.begin(), order.begin() + 16);
  for (int32_t u = kRows - 16; u < kRows; ++u) kept.push_back(u);
  for (int32_t u = 0; u < 4; ++u) kept.push_back(u);
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  EXPECT_EQ(cache_->kept_ids(), kept);
}

TEST_F(ObservedTest, SnapkvPoolsTheLastQueries) {
  const std::vector<double> raw = mass(32);
  std::vector<double> want(kRows, 0.0);
  for (int64_t u = 0; u < kRows; ++u) {
    for (int64_t v = u - 3; v <= u + 3; ++v) want[size_t(u)] += v < 0 || v >= kRows ? 0.0 : raw[size_t(v)] / 7;
  }
  expect_near(scores("snapkv"), want, 2e-5);
  expect_near(scores("snapkv", {{"n_window", 5}, {"kernel", 1}}), mass(5), 2e-5);
}

TEST_F(ObservedTest, TovaTakesTheLastQuery) { expect_near(scores("tova"), mass(1), 2e-6); }

TEST_F(ObservedTest, OracleSumsGivenQueries) { expect_near(scores("oracle"), mass(kTokens, true), 2e-5); }

TEST_F(ObservedTest, KvzipTakesTheLargestWeight) {
  std::vector<double> want(kRows, 0.0);
  for (int64_t i = 0; i < kTokens; ++i) {
    for (int64_t head = 0; head < kShape.h_q; ++head) {
      const std::vector<double> w = weights(i, head, kRows);
      for (size_t u = 0; u < kRows; ++u) want[u] = std::max(want[u], w[u]);
    }
  }
  expect_near(scores("kvzip"), want, 2e-6);
}

// By the closed form itself: mean and covariance first, then the quadratic form.
TEST_F(ObservedTest, ExpectedAttentionIsTheGaussianClosedForm) {
  const auto n = static_cast<size_t>(d());
  std::vector<double> share(kRows, 0.0);
  for (int64_t head = 0; head < kShape.h_q; ++head) {
    std::vector<double> mu(n, 0.0), sigma(n * n, 0.0), weight(kRows);
    for (int64_t i = 0; i < kTokens; ++i) {
      for (size_t a = 0; a < n; ++a) mu[a] += double(query(i, head)[a]) / kTokens;
    }
    for (int64_t i = 0; i < kTokens; ++i) {
      for (size_t a = 0; a < n; ++a) {
        for (size_t b = 0; b < n; ++b) {
          sigma[a * n + b] += (double(query(i, head)[a]) - mu[a]) * (double(query(i, head)[b]) - mu[b]) / kTokens;
        }
      }
    }
    const double scale = double(kShape.scale());
    double total = 0;
    for (int64_t u = 0; u < kRows; ++u) {
      double linear = 0, quadratic = 0;
      for (size_t a = 0; a < n; ++a) {
        linear += mu[a] * double(row(u)[a]);
        for (size_t b = 0; b < n; ++b) quadratic += double(row(u)[a]) * sigma[a * n + b] * double(row(u)[b]);
      }
      weight[size_t(u)] = std::exp(scale * linear + scale * scale / 2 * quadratic);
      total += weight[size_t(u)];
    }
    for (size_t u = 0; u < kRows; ++u) share[u] += weight[u] / total / kShape.h_q;
  }
  std::vector<double> want;
  for (int64_t u = 0; u < kRows; ++u) {
    const double norm = std::sqrt(true_score(row(u), row(u), kShape.layout.d_content, 1));
    want.push_back(std::log(share[size_t(u)] * norm));
  }
  expect_near(scores("expected_attention"), want, 2e-5);
}

// Rows of a block that closes after the observation come after the observed ones, the most recent first.
TEST_F(ObservedTest, LaterBlocksFollow) {
  const std::vector<float> before = scores("h2o");
  auto s = make_stream();
  const std::vector<float> more = make_rows(2 * kShape.block_rows, kShape.layout, 9);
  VESTIGE_ASSERT_OK(cache_->append(view_rows(more, kShape.layout, 0, 2 * kShape.block_rows), *s));
  const std::vector<float> after = saved(*cache_).values<float>("score");
  ASSERT_EQ(after.size(), before.size() + 128);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
  for (size_t u = before.size(); u < after.size(); ++u) EXPECT_EQ(after[u], static_cast<float>(u) - 16777216.0f);
}

// Row by row the whole row's distance from the low-pass; the branch's length.
TEST_F(ObservedTest, SelectorsWithoutQueries) {
  const int64_t b = kShape.block_rows;
  std::vector<double> full(kRows, 0.0), norm(kRows, 0.0);
  for (int64_t first = 0; first < kRows; first += b) {
    for (int64_t k = 0; k < d(); ++k) {
      std::vector<double> left(static_cast<size_t>(b));
      for (int64_t p = 0; p < b; ++p) left[size_t(p)] = double(row(first + p)[k]);
      const std::vector<double> x = left;
      for (int64_t j = 0; j < 5; ++j) {
        for (const double phase : {0.0, std::numbers::pi / 2}) {  // cosine, sine
          if (j == 0 && phase > 0) continue;
          double dot = 0;
          const auto wave = [&](int64_t p) {
            return std::sqrt((j == 0 ? 1.0 : 2.0) / double(b)) *
                   std::cos(2 * std::numbers::pi * double(j * p) / double(b) - phase);
          };
          for (int64_t p = 0; p < b; ++p) dot += wave(p) * x[size_t(p)];
          for (int64_t p = 0; p < b; ++p) left[size_t(p)] -= dot * wave(p);
        }
      }
      for (int64_t p = 0; p < b; ++p) full[size_t(first + p)] += left[size_t(p)] * left[size_t(p)];
      for (int64_t p = 0; p < b && k >= kShape.layout.d_content; ++p)
        norm[size_t(first + p)] += x[size_t(p)] * x[size_t(p)];
    }
  }
  for (double& x : full) x = std::sqrt(x);
  for (double& x : norm) x = std::sqrt(x);
  expect_near(scores("full_row", {{"bandwidth", 5}}), full, 2e-5);
  expect_near(scores("branch_norm"), norm, 1e-5);
}

}  // namespace
}  // namespace vestige::testing
