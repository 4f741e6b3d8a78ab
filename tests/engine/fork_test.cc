// A fork has the bytes of reading the document anew under its policy, whatever context it comes from.

#include "tests/engine/tiny_engine.h"

namespace vestige {
namespace {

using testing::logits_of;
using testing::read_all;
using testing::read_bytes;
using testing::small_blocks;
using testing::some_tokens;

class ForkTest : public ::testing::Test {
 protected:
  ForkTest() : engine_(testing::make_engine(testing::with_byte_tokens(testing::make_tiny_model(folder_, "model")))) {}
  void SetUp() override { ASSERT_NE(engine_, nullptr); }

  std::unique_ptr<Context> read(const PolicyConfig& policy, const std::vector<int32_t>& tokens,
                                int64_t n_kept_queries = 0) {
    auto context = Context::create(*engine_, policy, {.n_kept_queries = n_kept_queries});
    EXPECT_TRUE(context.ok()) << context.status().message();
    const Status read = (*context)->read(tokens, {}), finished = (*context)->finish_reading({});
    EXPECT_TRUE(read.ok() && finished.ok()) << read.message() << finished.message();
    return std::move(context).value();
  }
  static std::unique_ptr<Context> forked(const Context& context, const PolicyConfig& policy) {
    auto fork = context.fork(policy);
    EXPECT_TRUE(fork.ok()) << fork.status().message();
    return fork.ok() ? std::move(fork).value() : nullptr;
  }
  std::string bytes_of(const Context& context) {
    const Status status = context.save(folder_.file("x.vctx"), {});
    EXPECT_TRUE(status.ok()) << status.message();
    return read_bytes(folder_.file("x.vctx"));
  }
  /// Files hold rows, scores, kept ids, index and state: every byte of both, before and after some fed tokens.
  void expect_same(Context& a, Context& b) {
    ASSERT_EQ(bytes_of(a), bytes_of(b));
    for (size_t i = 0; i < a.caches().size(); ++i) ASSERT_EQ(a.caches()[i]->kept_ids(), b.caches()[i]->kept_ids());
    ASSERT_EQ(logits_of(a), logits_of(b));
    const auto tokens = some_tokens(70, 5);  // closes a block
    ASSERT_TRUE(a.feed(tokens, nullptr).ok());
    ASSERT_TRUE(b.feed(tokens, nullptr).ok());
    ASSERT_EQ(logits_of(a), logits_of(b));
    ASSERT_EQ(bytes_of(a), bytes_of(b));
  }

  testing::ScratchFolder folder_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(ForkTest, EqualsReadingAnewUnderEveryPolicy) {
  // Two chunks of the pass in which kvzip repeats the document, with room for the longer one in the window.
  const auto tokens = some_tokens(2050);
  const auto source = read(small_blocks("full"), tokens, INT64_MAX);
  const std::string before = bytes_of(*source);
  for (const PolicyInfo& info : policy_infos()) {
    const RowLayout& layout = engine_->model().info().cache_layers[0].layout;
    const auto refused = create_policy(small_blocks(info.name), layout).status();
    if (refused.code() == StatusCode::kUnsupported) continue;  // of rows with keys and values: gqa_test.cc
    SCOPED_TRACE(info.name);
    const auto fresh = read_all(*engine_, small_blocks(info.name), tokens);
    const auto fork = forked(*source, small_blocks(info.name));
    ASSERT_TRUE(fresh != nullptr && fork != nullptr);
    expect_same(*fresh, *fork);
  }
  EXPECT_EQ(bytes_of(*source), before);
}

TEST_F(ForkTest, BlocksMayHaveAnotherSize) {
  const auto tokens = some_tokens(1000);
  PolicyConfig wide = small_blocks("vestige"), odd = wide;
  wide.block_rows = 192;
  odd.block_rows = 100;  // some blocks lie across two pages of the source
  for (const PolicyConfig& from : {small_blocks("vestige"), wide}) {
    const auto source = read(from, tokens, 1024);
    for (const PolicyConfig& to : {small_blocks("vestige"), wide, odd}) {
      const auto fresh = read_all(*engine_, to, tokens);
      const auto fork = forked(*source, to);
      ASSERT_NE(fork, nullptr);
      expect_same(*fresh, *fork);
    }
  }
}

TEST_F(ForkTest, ClosedBlocksAreShared) {
  const auto source = read(small_blocks("full"), some_tokens(200), 1024);
  const auto fork = forked(*source, small_blocks("vestige"));
  ASSERT_NE(fork, nullptr);
  const RowPages a = source->caches()[0]->pages(), b = fork->caches()[0]->pages();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(a.content[i], b.content[i]) << i;
  EXPECT_NE(a.content[3], b.content[3]);  // the tail
}

TEST_F(ForkTest, OfAFork) {
  const auto tokens = some_tokens(500);
  const auto source = read(small_blocks("vestige"), tokens, 1024);
  const auto full = forked(*source, small_blocks("full"));
  ASSERT_NE(full, nullptr);
  const auto again = forked(*full, small_blocks("vestige"));
  const auto fresh = read_all(*engine_, small_blocks("vestige"), tokens);
  ASSERT_NE(again, nullptr);
  expect_same(*fresh, *again);
}

TEST_F(ForkTest, OfALoadedFile) {
  const auto tokens = some_tokens(500);
  ASSERT_TRUE(read(small_blocks("vestige"), tokens)->save(folder_.file("a.vctx"), {}).ok());
  const auto file = ContextFile::open(folder_.file("a.vctx"));
  ASSERT_TRUE(file.ok());
  auto loaded = Context::load(*engine_, *file);
  ASSERT_TRUE(loaded.ok());
  const Status status = (*loaded)->fork(small_blocks("vestige")).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("n_kept_queries = 0"), std::string::npos) << status.message();
  const auto fork = forked(**loaded, small_blocks("streaming"));
  const auto fresh = read_all(*engine_, small_blocks("streaming"), tokens);
  ASSERT_NE(fork, nullptr);
  expect_same(*fresh, *fork);
}

TEST_F(ForkTest, AsManyQueriesAsWereKept) {
  const auto tokens = some_tokens(1500);
  const auto enough = read(small_blocks("vestige"), tokens, 1024), few = read(small_blocks("vestige"), tokens, 1023);
  EXPECT_TRUE(enough->fork(small_blocks("vestige")).ok());
  EXPECT_EQ(few->fork(small_blocks("vestige")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(few->fork(small_blocks("full")).ok());
  // A short document has fewer than the index would take.
  EXPECT_TRUE(read(small_blocks("full"), some_tokens(90), 90)->fork(small_blocks("vestige")).ok());
}

TEST_F(ForkTest, OrderOfCallsIsChecked) {
  auto context = Context::create(*engine_, small_blocks(), {.n_kept_queries = 2000});
  ASSERT_TRUE(context.ok());
  ASSERT_TRUE((*context)->read(some_tokens(100), {}).ok());
  EXPECT_EQ((*context)->fork(small_blocks()).status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE((*context)->finish_reading({}).ok());
  ASSERT_TRUE((*context)->fork(small_blocks()).ok());
  ASSERT_TRUE((*context)->feed(some_tokens(1), nullptr).ok());
  EXPECT_EQ((*context)->fork(small_blocks()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Context::create(*engine_, small_blocks(), {.n_kept_queries = -1}).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace vestige
