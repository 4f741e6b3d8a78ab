// Sequences that grow over many blocks: which rows are kept does not depend on how they came (the paper's Corollary 1),
// rows go to the archive and come back, and both stay within reach.

#include <numeric>
#include <random>
#include <set>

#include "tests/cache/cache_fixture.h"
#include "tests/engine/tiny_engine.h"

namespace vestige {
namespace {

using testing::logits_of;
using testing::make_rows;
using testing::make_stream;
using testing::read_all;
using testing::read_bytes;
using testing::Shape;
using testing::small_blocks;
using testing::some_tokens;
using testing::view_rows;

using Settings = std::map<std::string, double>;
const Settings kProportional = {{"schedule", 0}};
Settings constant(double n_keep) { return {{"schedule", 1}, {"n_keep", n_keep}}; }

/// The rule itself: the n_keep rows of highest score, lower position first, and the sinks.
std::vector<int32_t> kept_by_rule(std::vector<float> score, int64_t n_closed, int64_t n_keep, int32_t n_sinks) {
  std::vector<int32_t> order(static_cast<size_t>(n_closed));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return score[static_cast<size_t>(a)] > score[static_cast<size_t>(b)]; });
  std::set<int32_t> kept(order.begin(), order.begin() + n_keep);
  for (int32_t u = 0; u < n_sinks; ++u) kept.insert(u);
  return {kept.begin(), kept.end()};
}

int64_t wanted(const Settings& settings, int64_t n_closed, double ratio) {
  if (n_closed == 0) return 0;
  if (settings.at("schedule") == 1) return std::min(n_closed, static_cast<int64_t>(settings.at("n_keep")));
  return std::max<int64_t>(1, std::llround(static_cast<double>(n_closed) / ratio));
}

TEST(Streaming, BlockwiseIsOneShotTrialByTrial) {
  auto stream = make_stream();
  std::mt19937_64 random(11);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  int64_t n_promoted = 0, n_demoted = 0;
  for (int trial = 0; trial < 24; ++trial) {
    const Shape shape = {{24, 16, DType::kBF16}, static_cast<int32_t>(64 + below(3) * 37), 2};
    const int64_t n = shape.block_rows * (2 + below(20)) + below(shape.block_rows);
    const double ratio = 2 + static_cast<double>(below(30));
    const std::vector<float> rows = make_rows(n, shape.layout, random());
    for (const Settings& settings : {kProportional, constant(1 + static_cast<double>(below(200)))}) {
      auto once = testing::make_cache(shape, "vestige", ratio, settings);
      auto grown = testing::make_cache(shape, "vestige", ratio, settings);
      VESTIGE_ASSERT_OK(once->append(view_rows(rows, shape.layout, 0, n), *stream));
      const auto score = testing::saved(*once).values<float>("score");
      std::vector<int32_t> before;
      for (int64_t at = 0; at < n;) {
        const int64_t count = std::min(n - at, 1 + below(2 * shape.block_rows));
        VESTIGE_ASSERT_OK(grown->append(view_rows(rows, shape.layout, at, count), *stream));
        at += count;
        const std::vector<int32_t> kept = grown->kept_ids();
        const int64_t n_closed = at / shape.block_rows * shape.block_rows;
        const int64_t n_keep = wanted(settings, n_closed, ratio);
        ASSERT_EQ(kept, kept_by_rule(score, n_closed, n_keep, n_closed > 0 ? 4 : 0))
            << "trial " << trial << " at " << at;
        for (int32_t u : before) n_demoted += std::binary_search(kept.begin(), kept.end(), u) ? 0 : 1;
        const int32_t old = before.empty() ? 0 : before.back();
        for (int32_t u : kept) n_promoted += u < old && !std::binary_search(before.begin(), before.end(), u) ? 1 : 0;
        before = kept;
      }
      ASSERT_TRUE(testing::saved(*grown).tensors == testing::saved(*once).tensors) << "trial " << trial;
    }
  }
  EXPECT_GT(n_promoted, 100);
  EXPECT_GT(n_demoted, 100);
}

TEST(Streaming, ConstantKeepsItsNumberHoweverLong) {
  auto stream = make_stream();
  const Shape shape = {{24, 16, DType::kBF16}, 64, 2};
  const std::vector<float> rows = make_rows(64 * 100, shape.layout);
  auto cache = testing::make_cache(shape, "vestige", 32, constant(80));
  for (int64_t block = 0; block < 100; ++block) {
    VESTIGE_ASSERT_OK(cache->append(view_rows(rows, shape.layout, 64 * block, 64), *stream));
    ASSERT_GE(cache->n_kept(), std::min<int64_t>(64 * (block + 1), 80));
    ASSERT_LE(cache->n_kept(), 84);
  }
  auto all = testing::make_cache(shape, "vestige", 32, constant(1 << 20));
  VESTIGE_ASSERT_OK(all->append(view_rows(rows, shape.layout, 0, 64 * 50), *stream));
  EXPECT_EQ(all->n_kept(), 64 * 50);
}

/// Rows that went to the archive, and rows that came back from it, as 64 rows after 64 close.
std::vector<int64_t> rows_that_move(const Shape& shape, const std::vector<float>& rows, double ratio, Stream& stream) {
  auto cache = testing::make_cache(shape, "vestige", ratio, kProportional);
  std::set<int32_t> before, gone, back;
  for (int64_t at = 0; at < static_cast<int64_t>(rows.size()) / shape.layout.d_row(); at += 64) {
    EXPECT_TRUE(cache->append(view_rows(rows, shape.layout, at, 64), stream).ok());
    const std::vector<int32_t> ids = cache->kept_ids();
    const std::set<int32_t> kept(ids.begin(), ids.end());
    for (int32_t u : before) {
      if (!kept.contains(u)) gone.insert(u);
    }
    for (int32_t u : kept) {
      if (u < at && !before.contains(u)) back.insert(u);
    }
    before = kept;
  }
  EXPECT_GT(gone.size(), 5u);
  EXPECT_GT(back.size(), 5u);
  std::vector<int64_t> moved(back.begin(), back.end());
  moved.insert(moved.end(), gone.begin(), gone.end());
  return moved;
}

// A query that nearly all of its weight lies on one row finds it in the softmax once, neither lost nor counted twice,
// while that row is kept, archived, and kept again.
TEST(Streaming, MovedRowsStayWithinReach) {
  auto stream = make_stream();
  const Shape shape = {{64, 16, DType::kF32}, 64, 1};
  const int64_t n = 64 * 40, d = shape.layout.d_row(), d_content = shape.layout.d_content;
  const std::vector<float> rows = make_rows(n, shape.layout, 5);
  const std::vector<int64_t> moved = rows_that_move(shape, rows, 16, *stream);
  auto cache = testing::make_cache(shape, "vestige", 16, kProportional);
  for (int64_t at = 0; at < n; at += 64) {
    VESTIGE_ASSERT_OK(cache->append(view_rows(rows, shape.layout, at, 64), *stream));
    if (at == 64) VESTIGE_ASSERT_OK(testing::fit(*cache, testing::make_queries(32, 1, shape.layout), *stream));
    for (size_t i = 0; i < moved.size() && at >= 64; i += 3) {
      if (moved[i] >= cache->n_closed()) continue;
      std::vector<float> q(rows.begin() + moved[i] * d, rows.begin() + (moved[i] + 1) * d);
      const double norm = std::sqrt(std::inner_product(q.begin(), q.begin() + d_content, q.begin(), 0.0));
      for (int64_t k = 0; k < d; ++k) {
        q[static_cast<size_t>(k)] *= k < d_content ? static_cast<float>(90 / norm) : 0.0f;
      }
      double lse = 0;
      testing::attend_f64(q.data(), rows, testing::all_ids(cache->n_rows()), shape, &lse);
      const testing::Attended a = testing::attend(*cache, q.data(), *stream);
      ASSERT_NEAR(a.lse[0], lse, 0.05) << "row " << moved[i] << " of " << cache->n_rows();
      ASSERT_EQ(a.record.n_kept + a.record.n_archived + a.record.n_tail, cache->n_rows());
    }
  }
}

class StreamingEngine : public ::testing::Test {
 protected:
  StreamingEngine() : engine_(testing::make_engine(testing::make_tiny_model(folder_, "model"))) {}
  void SetUp() override { ASSERT_NE(engine_, nullptr); }
  std::string saved(const Context& context) {
    const Status status = context.save(folder_.file("x.vctx"), {});
    EXPECT_TRUE(status.ok()) << status.message();
    return read_bytes(folder_.file("x.vctx"));
  }
  testing::ScratchFolder folder_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(StreamingEngine, FeedingInAnyPiecesAcrossManyBlocks) {
  for (const Settings& settings : {kProportional, constant(40)}) {
    PolicyConfig policy = small_blocks();
    policy.settings = settings;
    const auto tokens = some_tokens(300, 5);
    std::mt19937_64 random(3);
    std::string want;
    for (int run = 0; run < 2; ++run) {
      const auto context = read_all(*engine_, policy, some_tokens(150));
      for (size_t at = 0; at < tokens.size();) {
        const size_t n = run == 0 ? tokens.size() : std::min(tokens.size() - at, 1 + random() % 90);
        StepRecord record;
        ASSERT_TRUE(context->feed(std::span(tokens).subspan(at, n), &record).ok());
        ASSERT_LE(record.n_recalled, record.n_archived);
        at += n;
      }
      if (run == 0) want = saved(*context);
      ASSERT_EQ(saved(*context), want) << "run " << run;
    }
  }
}

TEST_F(StreamingEngine, BelowOneBlockIsFull) {
  for (const Settings& settings : {kProportional, constant(1)}) {
    PolicyConfig policy = small_blocks();
    policy.settings = settings;
    const auto a = read_all(*engine_, policy, some_tokens(40)),
               b = read_all(*engine_, small_blocks("full"), some_tokens(40));
    ASSERT_EQ(logits_of(*a), logits_of(*b));
    for (const int32_t token : some_tokens(23, 5)) {
      StepRecord record;
      ASSERT_TRUE(a->feed({&token, 1}, &record).ok() && b->feed({&token, 1}, nullptr).ok());
      ASSERT_EQ(logits_of(*a), logits_of(*b));
      ASSERT_EQ(record.n_kept + record.n_archived, 0);
    }
  }
}

}  // namespace
}  // namespace vestige
