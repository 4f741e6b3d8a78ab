// Rows that the index replaces by codes: gone from memory and file, never read, and whatever would need them is
// refused.

#include "tests/cache/cache_fixture.h"

namespace vestige::testing {
namespace {

const Shape kShape{{32, 32, DType::kBF16, false}, 64, 3};
constexpr int64_t kBlock = 64, kKept = 4 + 32;  // sinks and window

class DroppedTest : public ::testing::Test {
 protected:
  std::unique_ptr<LayerCache> cache(const char* policy = "anchor") const { return make_cache(kShape, policy); }
  void append(LayerCache& c, int64_t begin, int64_t n) {
    VESTIGE_ASSERT_OK(c.append(view_rows(rows_, kShape.layout, begin, n), *s_));
  }
  /// 5 blocks and 7 rows.
  std::unique_ptr<LayerCache> fitted() {
    auto c = cache();
    append(*c, 0, 5 * kBlock + 7);
    EXPECT_TRUE(fit(*c, queries_, *s_).ok());
    return c;
  }
  void expect_refused(const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_NE(status.message().find("dropped"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("anchor"), std::string::npos) << status.message();
  }

  std::unique_ptr<Stream> s_ = make_stream();
  std::vector<float> rows_ = make_rows(12 * kBlock, kShape.layout), queries_ = make_queries(40, 3, kShape.layout);
};

TEST_F(DroppedTest, MemoryAndFileFall) {
  auto c = cache();
  append(*c, 0, 5 * kBlock + 7);
  EXPECT_FALSE(c->rows_dropped());
  const std::vector<int32_t> kept = c->kept_ids();
  EXPECT_EQ(c->bytes().rows, 6 * kBlock * 128);
  VESTIGE_ASSERT_OK(fit(*c, queries_, *s_));
  EXPECT_TRUE(c->rows_dropped());
  EXPECT_EQ(c->kept_ids(), kept);
  for (int64_t n : {5, 6, 9}) {  // blocks that close later go at once
    append(*c, c->n_rows(), n * kBlock + 7 - c->n_rows());
    EXPECT_EQ(c->n_rows(), n * kBlock + 7);
    EXPECT_EQ(c->n_closed(), n * kBlock);
    const LayerCache::Bytes b = c->bytes();
    EXPECT_EQ(b.rows, kBlock * 128);
    EXPECT_EQ(b.scores, 4 * kKept);
    EXPECT_EQ(b.kept_arena, kKept * (4 + 128));
    const MemoryStore store = saved(*c);
    for (const char* gone : {"content", "branch", "score"}) EXPECT_FALSE(store.tensors.contains(gone)) << gone;
    EXPECT_EQ(store.values<int64_t>("dropped"), std::vector<int64_t>{n * kBlock - kKept});
    const StepRecord r = attend(*c, queries_.data(), *s_).record;
    EXPECT_EQ(r.n_coded, n * kBlock - kKept);
    EXPECT_EQ(r.n_archived, r.n_coded);
    EXPECT_EQ(r.read_bytes, (kKept + 7) * 128 + c->bytes().codes);
    EXPECT_EQ(r.full_bytes, c->n_rows() * 128);
  }
}

// Rows that were kept are coded from their copies: as if all rows were there.
TEST_F(DroppedTest, LaterBlocksAreCodedAsIfAllRowsWereThere) {
  auto whole = cache(), step_by_step = cache();
  append(*whole, 0, 7 * kBlock + 1);
  const Attended want = attend(*whole, queries_.data(), *s_);  // codes seven blocks, all there
  for (int64_t n = 0; n < 7 * kBlock + 1; ++n) {
    append(*step_by_step, n, 1);
    const Attended a = attend(*step_by_step, queries_.data(), *s_);
    EXPECT_EQ(step_by_step->rows_dropped(), n + 1 >= kBlock);
    if (n == 7 * kBlock) {
      EXPECT_TRUE(same_bits(a.out, want.out) && same_bits(a.lse, want.lse));
    }
  }
  EXPECT_TRUE(saved(*step_by_step).tensors == saved(*whole).tensors);
}

// Reading densely may close blocks behind an index that is ready: rows go at its end.
TEST_F(DroppedTest, ReadingKeepsRowsUntilItEnds) {
  auto c = cache();
  append(*c, 0, 40);
  VESTIGE_ASSERT_OK(fit(*c, queries_, *s_));
  append(*c, 40, 200);
  EXPECT_FALSE(c->rows_dropped());
  EXPECT_EQ(c->pages().n_rows, 240);
  const MemoryStore store = saved(*c);
  auto again = cache();
  VESTIGE_ASSERT_OK(again->load("", store));
  EXPECT_TRUE(saved(*again).tensors == store.tensors);
  VESTIGE_ASSERT_OK(fit(*again, queries_, *s_));
  EXPECT_TRUE(again->rows_dropped());
  attend(*c, queries_.data(), *s_);
  EXPECT_TRUE(c->rows_dropped());
}

TEST_F(DroppedTest, PagesAreRefusedByOps) {
  const auto c = fitted();
  RowPages pages = c->pages();
  EXPECT_EQ(pages.n_rows, 0);
  EXPECT_EQ(pages.content, nullptr);
  EXPECT_EQ(pages.branch, nullptr);
  pages.n_rows = c->n_closed();  // whoever forgets to ask
  const RowSet set = {.pages = pages};
  float out[3 * 32], lse[3], max[3];
  const Status status = ops::attend_rows({.q = {queries_.data(), DType::kF32, {1, 3, 64}},
                                          .rows = std::span(&set, 1),
                                          .out = {out, DType::kF32, {1, 3, 32}},
                                          .lse = {lse, DType::kF32, {1, 3}},
                                          .max = {max, DType::kF32, {1, 3}},
                                          .scale = 1},
                                         *s_);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
}

TEST_F(DroppedTest, RefusesWhatNeedsRows) {
  const auto c = fitted();
  const MemoryStore before = saved(*c);
  expect_refused(fit(*c, queries_, *s_));
  expect_refused(cache("full")->share_rows(*c, *s_));
  expect_refused(cache()->share_rows(*c, *s_));
  EXPECT_TRUE(saved(*c).tensors == before.tensors);
}

TEST_F(DroppedTest, SharedRowsStayInTheirSource) {
  auto source = cache("full"), fork = cache(), fresh = fitted();
  append(*source, 0, 5 * kBlock + 7);
  const MemoryStore before = saved(*source);
  VESTIGE_ASSERT_OK(fork->share_rows(*source, *s_));
  VESTIGE_ASSERT_OK(fit(*fork, queries_, *s_));
  EXPECT_TRUE(fork->rows_dropped());
  EXPECT_TRUE(saved(*fork).tensors == saved(*fresh).tensors);
  EXPECT_TRUE(saved(*source).tensors == before.tensors);
  for (LayerCache* c : {fork.get(), fresh.get()}) append(*c, 5 * kBlock + 7, 3 * kBlock);
  EXPECT_TRUE(saved(*fork).tensors == saved(*fresh).tensors);
  auto other = cache("streaming");
  VESTIGE_ASSERT_OK(other->share_rows(*source, *s_));
}

TEST_F(DroppedTest, RefusesHostileFiles) {
  const auto c = fitted();
  const MemoryStore whole = saved(*c);
  VESTIGE_ASSERT_OK(cache()->load("", whole));
  const auto code = [&](const auto& change) {
    MemoryStore store = whole;
    change(store);
    return cache()->load("", store).code();
  };
  const auto put = [](MemoryStore& store, const char* name, size_t at, int64_t value) {
    std::memcpy(store.tensors.at(name).bytes.data() + 8 * at, &value, 8);
  };
  const int64_t n = 5 * kBlock;
  for (const int64_t value : {int64_t{0}, int64_t{-1}, n, n - kKept - 1, INT64_MAX}) {
    EXPECT_EQ(code([&](MemoryStore& s) { put(s, "dropped", 0, value); }), StatusCode::kDataLoss) << value;
  }
  // Without the mark the rows must be there.
  EXPECT_EQ(code([](MemoryStore& s) { s.tensors.erase("dropped"); }), StatusCode::kNotFound);
  EXPECT_EQ(code([](MemoryStore& s) { s.tensors.erase("kept_score"); }), StatusCode::kNotFound);
  EXPECT_EQ(code([](MemoryStore& s) { s.tensors.erase("kept_rows"); }), StatusCode::kNotFound);
  EXPECT_EQ(code([](MemoryStore& s) { s.tensors["index_ready"].bytes[0] = std::byte{0}; }), StatusCode::kDataLoss);
  // More rows than any code in the file: refused before memory is taken for them.
  EXPECT_EQ(code([&](MemoryStore& s) {
              const int64_t many = (int64_t{1} << 31) - kBlock;
              put(s, "counts", 0, many);
              put(s, "dropped", 0, many - kKept);
              put(s, "anchor_sizes", 1, many - kKept);
            }),
            StatusCode::kDataLoss);
  // Another policy has no codes for them.
  MemoryStore store = whole;
  EXPECT_EQ(make_cache(kShape, "streaming", 5 * 64 / 36.0)->load("", store).code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace vestige::testing
