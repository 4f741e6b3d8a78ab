// A context: the same bytes however the document was cut and whoever computed, before and after a file.

#include <cstdio>
#include <fstream>

#include "tests/engine/tiny_engine.h"

namespace vestige {
namespace {

using testing::logits_of;
using testing::make_engine;
using testing::read_all;
using testing::read_bytes;
using testing::small_blocks;
using testing::some_tokens;

class ContextTest : public ::testing::Test {
 protected:
  ContextTest() : model_(testing::make_tiny_model(folder_, "model")), engine_(make_engine(model_)) {}
  void SetUp() override { ASSERT_NE(engine_, nullptr); }

  std::string saved(const Context& context, const std::string& name = "a.vctx") {
    const Status status = context.save(folder_.file(name), {});
    EXPECT_TRUE(status.ok()) << status.message();
    return read_bytes(folder_.file(name));
  }
  std::unique_ptr<Context> loaded(const std::string& name = "a.vctx", const LoadOptions& options = {}) {
    auto file = ContextFile::open(folder_.file(name));
    EXPECT_TRUE(file.ok()) << file.status().message();
    auto context = Context::load(*engine_, *file, options);
    EXPECT_TRUE(context.ok()) << context.status().message();
    return std::move(context).value();
  }
  /// Feeds tokens to both; logits must agree bit for bit at each step.
  static void expect_same_steps(Context& a, Context& b, const std::vector<int32_t>& tokens) {
    ASSERT_EQ(logits_of(a), logits_of(b));
    for (size_t i = 0; i < tokens.size(); ++i) {
      StepRecord ra, rb;
      ASSERT_TRUE(a.feed({&tokens[i], 1}, &ra).ok());
      ASSERT_TRUE(b.feed({&tokens[i], 1}, &rb).ok());
      ASSERT_EQ(logits_of(a), logits_of(b)) << "step " << i;
      ASSERT_EQ(ra.n_recalled, rb.n_recalled) << "step " << i;
    }
  }

  testing::ScratchFolder folder_;
  std::string model_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(ContextTest, SaveLoadContinueEqualsContinue) {
  const auto context = read_all(*engine_, small_blocks(), some_tokens(300));
  saved(*context);
  const auto again = loaded();
  expect_same_steps(*context, *again, some_tokens(90, 5));  // closes a block on the way
  EXPECT_EQ(saved(*context, "x.vctx"), saved(*again, "y.vctx"));
}

TEST_F(ContextTest, SavingTwiceGivesTheSameBytes) {
  const auto context = read_all(*engine_, small_blocks(), some_tokens(300));
  const std::string bytes = saved(*context);
  EXPECT_EQ(bytes, saved(*context, "b.vctx"));
  EXPECT_EQ(bytes, saved(*loaded(), "c.vctx"));
}

TEST_F(ContextTest, AnyPiecesGiveTheSameBytes) {
  const auto tokens = some_tokens(2500);
  const std::string bytes = saved(*read_all(*engine_, small_blocks(), tokens));
  for (const size_t chunk : {size_t{1}, size_t{13}, size_t{2047}, size_t{2048}, size_t{2049}}) {
    EXPECT_EQ(bytes, saved(*read_all(*engine_, small_blocks(), tokens, chunk))) << "pieces of " << chunk;
  }
}

TEST_F(ContextTest, ThreadsDoNotChangeABit) {
  const auto tokens = some_tokens(2300);
  const std::string bytes = saved(*read_all(*engine_, small_blocks(), tokens));
  for (const int32_t n_threads : {1, 3}) {
    const auto engine = make_engine(model_, n_threads);
    const auto context = read_all(*engine, small_blocks(), tokens);
    EXPECT_EQ(bytes, saved(*context)) << n_threads << " threads";
    const auto reference = loaded();
    expect_same_steps(*context, *reference, some_tokens(8, 5));
  }
}

TEST_F(ContextTest, AnotherPolicyOverTheSameRows) {
  const auto tokens = some_tokens(300);
  saved(*read_all(*engine_, small_blocks("vestige"), tokens));
  for (const char* name : {"full", "streaming", "random"}) {
    const auto fresh = read_all(*engine_, small_blocks(name), tokens);
    const auto over = loaded("a.vctx", {.policy = small_blocks(name)});
    expect_same_steps(*fresh, *over, some_tokens(70, 5));
  }
  const auto file = ContextFile::open(folder_.file("a.vctx"));
  const Status status = Context::load(*engine_, *file, {.policy = small_blocks("vestige")}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
}

TEST_F(ContextTest, QuestionsDoNotTouchEachOther) {
  saved(*read_all(*engine_, small_blocks(), some_tokens(200)));
  const auto file = ContextFile::open(folder_.file("a.vctx"));
  auto first = Context::load(*engine_, *file), second = Context::load(*engine_, *file);
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE((*first)->feed(some_tokens(130, 9), nullptr).ok());
  const auto untouched = loaded();
  expect_same_steps(**second, *untouched, some_tokens(10, 3));
}

/// Resident kB of the mapping of `path`, from /proc/self/smaps.
int64_t resident_kb(const std::string& path) {
  std::ifstream in("/proc/self/smaps");
  int64_t total = 0;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.find('-') < line.find(' ')) inside = line.ends_with(path);
    long long kb = 0;
    if (inside && std::sscanf(line.c_str(), "Rss: %lld kB", &kb) == 1) total += kb;
  }
  return total;
}

TEST_F(ContextTest, LoadingLeavesTheArchiveUnmapped) {
  const auto engine = make_engine(model_, 2, DType::kF32);
  const auto context = read_all(*engine, small_blocks(), some_tokens(4000));
  const auto n_file = static_cast<int64_t>(saved(*context).size());
  const auto file = ContextFile::open(folder_.file("a.vctx"));
  ASSERT_TRUE(file.ok());
  const auto again = Context::load(*engine, *file);
  ASSERT_TRUE(again.ok());
  // Closed content is 640 kB of this file of about 1 MB; a fault maps 64 kB around it.
  const int64_t kb = resident_kb(folder_.file("a.vctx"));
  EXPECT_LT(kb * 1024, n_file / 2) << "of " << n_file << " bytes";
}

TEST_F(ContextTest, FeedingAtOnceEqualsOneByOne) {
  saved(*read_all(*engine_, small_blocks(), some_tokens(300)));
  const auto tokens = some_tokens(93, 5);  // closes a block on the way, and ends within a group
  const auto at_once = loaded(), one_by_one = loaded();
  StepRecord a, b;
  ASSERT_TRUE(at_once->feed(tokens, &a).ok());
  for (const int32_t token : tokens) ASSERT_TRUE(one_by_one->feed({&token, 1}, &b).ok());
  EXPECT_EQ(logits_of(*at_once), logits_of(*one_by_one));
  EXPECT_EQ(saved(*at_once, "x.vctx"), saved(*one_by_one, "y.vctx"));
  EXPECT_GT(a.n_recalled, 0);
  EXPECT_EQ(a.n_steps, b.n_steps);
  EXPECT_EQ(a.n_recalled, b.n_recalled);
  EXPECT_EQ(a.n_kept, b.n_kept);
  EXPECT_EQ(a.n_tail, b.n_tail);
  EXPECT_EQ(a.read_bytes, b.read_bytes);
}

TEST_F(ContextTest, StoppedEndOfReadingTakesNoMoreTokens) {
  const auto tokens = some_tokens(100);
  const std::string bytes = saved(*read_all(*engine_, small_blocks(), tokens));
  auto context = Context::create(*engine_, small_blocks());
  ASSERT_TRUE(context.ok());
  ASSERT_TRUE((*context)->read(tokens, {}).ok());
  EXPECT_EQ((*context)->finish_reading([](int64_t, int64_t) { return false; }).code(), StatusCode::kCancelled);
  EXPECT_EQ((*context)->read(tokens, {}).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE((*context)->finish_reading({}).ok());
  EXPECT_EQ(bytes, saved(**context));
}

TEST_F(ContextTest, AFolderNameThatIsNotUtf8IsNotWritten) {
  const auto engine = make_engine(testing::make_tiny_model(folder_, "m\xff"));
  const auto context = read_all(*engine, small_blocks(), some_tokens(50));
  const Status status = context->save(folder_.file("a.vctx"), {});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ((*ContextFile::open(folder_.file("a.vctx")))->model_dir(), "");
}

TEST_F(ContextTest, OrderOfCallsIsChecked) {
  auto context = Context::create(*engine_, small_blocks());
  ASSERT_TRUE(context.ok());
  const auto tokens = some_tokens(5);
  EXPECT_EQ((*context)->logits().status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*context)->finish_reading({}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*context)->feed(tokens, nullptr).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*context)->save(folder_.file("a.vctx"), {}).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE((*context)->read(tokens, {}).ok());
  EXPECT_EQ((*context)->logits().status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE((*context)->finish_reading({}).ok());
  EXPECT_EQ((*context)->read(tokens, {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*context)->n_tokens(), 5);
}

TEST_F(ContextTest, TokensAreChecked) {
  auto context = Context::create(*engine_, small_blocks());
  ASSERT_TRUE(context.ok());
  const auto n_vocab = static_cast<int32_t>(engine_->model().info().n_vocab);
  for (const int32_t bad : {-1, n_vocab}) {
    EXPECT_EQ((*context)->read({&bad, 1}, {}).code(), StatusCode::kInvalidArgument);
  }
  const auto too_many = some_tokens(engine_->model().info().max_tokens + 1);
  const Status status = (*context)->read(too_many, {});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("4097"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("4096"), std::string::npos) << status.message();
  EXPECT_EQ((*context)->n_tokens(), 0);
}

TEST_F(ContextTest, StoppedReadingGoesOn) {
  const auto tokens = some_tokens(4090);
  const std::string bytes = saved(*read_all(*engine_, small_blocks(), tokens));
  auto context = Context::create(*engine_, small_blocks());
  ASSERT_TRUE(context.ok());
  EXPECT_EQ((*context)->read(tokens, [](int64_t, int64_t) { return false; }).code(), StatusCode::kCancelled);
  ASSERT_TRUE((*context)->read({}, {}).ok());
  ASSERT_TRUE((*context)->finish_reading({}).ok());
  EXPECT_EQ(bytes, saved(**context));
}

}  // namespace
}  // namespace vestige
