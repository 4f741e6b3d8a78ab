// The vestige selector: which rows it keeps, and that neither chunking nor the order of closes changes it.

#include <numbers>
#include <set>

#include "tests/cache/cache_fixture.h"

namespace vestige::testing {
namespace {

/// Eq. 3 in float64: distance of each branch from the first `bandwidth` rFFT bins of its block.
std::vector<double> scores_f64(const std::vector<float>& rows, const Shape& shape, int64_t n, int32_t bandwidth) {
  const int64_t b = shape.block_rows, d = shape.layout.d_row();
  std::vector<double> score(static_cast<size_t>(n));
  for (int64_t first = 0; first < n; first += b) {
    for (int64_t k = shape.layout.d_content; k < d; ++k) {
      std::vector<double> low(static_cast<size_t>(b));
      for (int32_t j = 0; j < bandwidth; ++j) {
        double re = 0, im = 0;
        for (int64_t p = 0; p < b; ++p) {
          const double angle = 2 * std::numbers::pi * j * static_cast<double>(p) / static_cast<double>(b);
          const double x = rows[static_cast<size_t>((first + p) * d + k)];
          re += x * std::cos(angle);
          im += x * std::sin(angle);
        }
        for (int64_t p = 0; p < b; ++p) {
          const double angle = 2 * std::numbers::pi * j * static_cast<double>(p) / static_cast<double>(b);
          const double weight = (j == 0 ? 1.0 : 2.0) / static_cast<double>(b);
          low[static_cast<size_t>(p)] += weight * (re * std::cos(angle) + im * std::sin(angle));
        }
      }
      for (int64_t p = 0; p < b; ++p) {
        const double high = rows[static_cast<size_t>((first + p) * d + k)] - low[static_cast<size_t>(p)];
        score[static_cast<size_t>(first + p)] += high * high;
      }
    }
  }
  for (double& s : score) s = std::sqrt(s);
  return score;
}

std::vector<int32_t> top_f64(const std::vector<double>& score, int64_t n_keep, int32_t n_sinks) {
  std::vector<int32_t> order(score.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return score[static_cast<size_t>(a)] > score[static_cast<size_t>(b)]; });
  std::set<int32_t> kept(order.begin(), order.begin() + n_keep);
  for (int32_t i = 0; i < n_sinks; ++i) kept.insert(i);
  return {kept.begin(), kept.end()};
}

const Shape kShape = {{48, 16, DType::kF32}, 64, 2};

TEST(SelectorTest, KeepsSpikes) {
  auto s = make_stream();
  std::vector<float> rows = make_rows(256, kShape.layout);
  const std::set<int32_t> spikes = {9, 63, 64, 100, 130, 199, 255};
  for (int32_t u = 0; u < 256; ++u) {
    for (int32_t k = 48; k < 64; ++k) {
      rows[static_cast<size_t>(u * 64 + k)] = std::sin(0.05f * static_cast<float>(u)) + (spikes.contains(u) ? 5.0f : 0);
    }
  }
  auto c = make_cache(kShape, "vestige", 256.0 / 7);
  VESTIGE_ASSERT_OK(c->append(view_rows(rows, kShape.layout, 0, 256), *s));
  std::set<int32_t> want = spikes;
  want.insert({0, 1, 2, 3});
  EXPECT_EQ(c->kept_ids(), std::vector<int32_t>(want.begin(), want.end()));
}

// Corollary 1, with an independent score: after each close the kept set is the one-shot top-m of all closed rows.
TEST(SelectorTest, IncrementalEqualsOneShot) {
  auto s = make_stream();
  const int64_t n = 10 * 64;
  const std::vector<float> rows = make_rows(n, kShape.layout, 5);
  const std::vector<double> score = scores_f64(rows, kShape, n, 16);
  auto c = make_cache(kShape, "vestige", 16);
  std::set<int32_t> once_kept;
  size_t n_demoted = 0;
  for (int64_t closed = 64; closed <= n; closed += 64) {
    VESTIGE_ASSERT_OK(c->append(view_rows(rows, kShape.layout, closed - 64, 64), *s));
    const std::vector<int32_t> kept = c->kept_ids();
    EXPECT_EQ(kept, top_f64({score.begin(), score.begin() + closed}, closed / 16, 4)) << closed;
    for (int32_t u : once_kept) n_demoted += std::binary_search(kept.begin(), kept.end(), u) ? 0u : 1u;
    once_kept.insert(kept.begin(), kept.end());
  }
  EXPECT_GT(n_demoted, 0u) << "rows should move both ways";
}

// Pitfall 16: a dead branch scores zero everywhere; the rule for ties then keeps the lowest ids.
TEST(SelectorTest, DeadBranchKeepsTheLowestIds) {
  auto s = make_stream();
  std::vector<float> rows = make_rows(128, kShape.layout);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i % 64 >= 48) rows[i] = 0;
  }
  auto c = make_cache(kShape, "vestige", 8);
  VESTIGE_ASSERT_OK(c->append(view_rows(rows, kShape.layout, 0, 128), *s));
  std::vector<int32_t> want(16);
  for (int32_t i = 0; i < 16; ++i) want[static_cast<size_t>(i)] = i;
  EXPECT_EQ(c->kept_ids(), want);
}

// Pitfall 16: live scores vary, and kept rows are not simply the first ones.
TEST(SelectorTest, LiveBranchScoresVary) {
  auto s = make_stream();
  auto c = make_cache(kShape, "vestige", 8);
  VESTIGE_ASSERT_OK(c->append(view_rows(make_rows(128, kShape.layout), kShape.layout, 0, 128), *s));
  const std::vector<float> score = saved(*c).values<float>("score");
  const auto [low, high] = std::minmax_element(score.begin(), score.end());
  EXPECT_GT(*high, 2 * *low);
  EXPECT_GT(c->kept_ids().back(), 64);
}

// Pitfalls 22 and 23 at the real block size: chunks of 512, 4096 and 5000 rows, and a jump of three blocks.
TEST(SelectorTest, RealBlocksInAnyChunks) {
  auto s = make_stream();
  const Shape shape = {{8, 8, DType::kBF16}, 4096, 1};
  const int64_t n = 3 * 4096 + 100;
  const std::vector<float> rows = make_rows(n, shape.layout);
  auto jump = make_cache(shape, "vestige", 32);
  VESTIGE_ASSERT_OK(jump->append(view_rows(rows, shape.layout, 0, n), *s));
  EXPECT_EQ(jump->n_closed(), 3 * 4096);
  const auto want = saved(*jump).tensors;
  for (int64_t chunk : {512, 4096, 5000}) {
    auto c = make_cache(shape, "vestige", 32);
    for (int64_t done = 0; done < n; done += chunk) {
      VESTIGE_ASSERT_OK(c->append(view_rows(rows, shape.layout, done, std::min(chunk, n - done)), *s));
    }
    EXPECT_TRUE(saved(*c).tensors == want) << "chunk " << chunk;
  }
}

TEST(SelectorTest, KeepsOneRowAtLeast) {
  auto s = make_stream();
  PolicyConfig config;
  config.block_rows = 64;
  config.ratio = 1e6;
  config.n_sinks = 0;
  auto policy = create_policy(config, kShape.layout);
  ASSERT_TRUE(policy.ok());
  auto c = LayerCache::create(kShape.layout, 2, 0.1f, policy.value());
  ASSERT_TRUE(c.ok());
  VESTIGE_ASSERT_OK(c.value()->append(view_rows(make_rows(64, kShape.layout), kShape.layout, 0, 64), *s));
  EXPECT_EQ(c.value()->n_kept(), 1);
}

TEST(SelectorTest, StreamingKeepsTheLastRows) {
  auto s = make_stream();
  auto c = make_cache(kShape, "streaming", 8);
  VESTIGE_ASSERT_OK(c->append(view_rows(make_rows(128, kShape.layout), kShape.layout, 0, 128), *s));
  std::vector<int32_t> want = {0, 1, 2, 3};
  for (int32_t u = 112; u < 128; ++u) want.push_back(u);
  EXPECT_EQ(c->kept_ids(), want);
}

TEST(SelectorTest, RandomDrawsFromTheSeedAlone) {
  auto s = make_stream();
  auto a = make_cache(kShape, "random", 8), b = make_cache(kShape, "random", 8);
  VESTIGE_ASSERT_OK(a->append(view_rows(make_rows(128, kShape.layout, 1), kShape.layout, 0, 128), *s));
  VESTIGE_ASSERT_OK(b->append(view_rows(make_rows(128, kShape.layout, 2), kShape.layout, 0, 128), *s));
  EXPECT_EQ(a->kept_ids(), b->kept_ids());
  std::vector<float> score = saved(*a).values<float>("score");
  for (float x : score) EXPECT_TRUE(x >= 0 && x < 1);
  std::sort(score.begin(), score.end());
  EXPECT_EQ(std::adjacent_find(score.begin(), score.end()), score.end()) << "each position has its own draw";
}

TEST(SelectorTest, VestigeNeedsABranch) {
  const auto made = create_policy({}, {48, 0, DType::kF32});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), StatusCode::kUnsupported);
}

TEST(SelectorTest, OtherPoliciesNeedNone) {
  auto s = make_stream();
  const Shape shape = {{48, 0, DType::kF32}, 64, 2};
  for (const char* name : {"full", "streaming", "random"}) {
    auto c = make_cache(shape, name, 8);
    const std::vector<float> rows = make_rows(200, shape.layout), q = make_queries(1, 2, shape.layout);
    VESTIGE_ASSERT_OK(c->append(view_rows(rows, shape.layout, 0, 200), *s));
    expect_attends(attend(*c, q.data(), *s), q.data(), rows, kept_and_tail(*c), shape);
    auto loaded = make_cache(shape, name, 8);
    const MemoryStore store = saved(*c);
    VESTIGE_ASSERT_OK(loaded->load("", store));
    EXPECT_TRUE(saved(*loaded).tensors == store.tensors) << name;
  }
}

}  // namespace
}  // namespace vestige::testing
