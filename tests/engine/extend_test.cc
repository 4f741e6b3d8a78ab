// A document read in parts, with or without a file in between, is the document read at once.

#include "tests/engine/tiny_engine.h"

namespace vestige {
namespace {

using testing::logits_of;
using testing::read_all;
using testing::read_bytes;
using testing::small_blocks;
using testing::some_tokens;

class ExtendTest : public ::testing::Test {
 protected:
  ExtendTest() : engine_(testing::make_engine(testing::make_tiny_model(folder_, "model"))) {}
  void SetUp() override { ASSERT_NE(engine_, nullptr); }

  std::string saved(const Context& context, const std::string& name = "x.vctx") {
    const Status status = context.save(folder_.file(name), {});
    EXPECT_TRUE(status.ok()) << status.message();
    return read_bytes(folder_.file(name));
  }
  /// Everything but scores, kept rows and index, which "full" does not have.
  std::string rows_and_state(const Context& context) {
    const auto full = context.fork(small_blocks("full"));
    EXPECT_TRUE(full.ok()) << full.status().message();
    return full.ok() ? saved(**full) : "";
  }
  std::unique_ptr<Context> loaded(const std::string& name) {
    const auto file = ContextFile::open(folder_.file(name));
    EXPECT_TRUE(file.ok()) << file.status().message();
    auto context = Context::load(*engine_, *file);
    EXPECT_TRUE(context.ok()) << context.status().message();
    return std::move(context).value();
  }
  static std::vector<int32_t> part(const std::vector<int32_t>& tokens, size_t begin, size_t end) {
    return {tokens.begin() + static_cast<int64_t>(begin), tokens.begin() + static_cast<int64_t>(end)};
  }

  testing::ScratchFolder folder_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(ExtendTest, EqualsReadingAtOnce) {
  const auto tokens = some_tokens(3700);
  // The last part is so long that the index is fitted anew. Borders lie within tiles, blocks and chunks, and one part
  // is a tile and 2 tokens.
  const std::vector<std::vector<size_t>> borders = {{2050, 2061, 3700}, {9, 1000, 2500, 3700}, {63, 2100, 3700}};
  for (const char* name : {"vestige", "streaming", "random", "full"}) {
    const std::string want = saved(*read_all(*engine_, small_blocks(name), tokens));
    for (size_t i = 0; i < borders.size(); ++i) {
      const std::vector<size_t>& ends = borders[i];
      auto context = read_all(*engine_, small_blocks(name), part(tokens, 0, ends[0]));
      for (size_t k = 1; k < ends.size(); ++k) {
        if (k % 2 == 1) {  // by way of a file
          saved(*context, "a.vctx");
          context = loaded("a.vctx");
        }
        ASSERT_TRUE(context->extend(part(tokens, ends[k - 1], ends[k]), {}).ok());
      }
      EXPECT_EQ(saved(*context), want) << name << ", borders " << i;
    }
  }
}

TEST_F(ExtendTest, ShortPartsKeepTheFitOfTheIndex) {
  const auto tokens = some_tokens(900);
  const auto once = read_all(*engine_, small_blocks(), tokens);
  auto grown = read_all(*engine_, small_blocks(), part(tokens, 0, 500));
  const std::string before = saved(*grown, "a.vctx");
  for (size_t at : {500u, 640u, 700u}) {
    ASSERT_TRUE(grown->extend(part(tokens, at, at == 500 ? 640 : at == 640 ? 700 : 900), {}).ok());
  }
  EXPECT_EQ(rows_and_state(*grown), rows_and_state(*once));
  EXPECT_EQ(grown->caches()[0]->kept_ids(), once->caches()[0]->kept_ids());
  EXPECT_EQ(logits_of(*grown), logits_of(*once));
  saved(*grown, "b.vctx");
  const auto transform = [&](const char* name) {
    const auto file = ContextFile::open(folder_.file(name));
    const std::string layer = "layers." + std::to_string((*file)->cache_layers()[0].layer) + ".";
    const auto view = (*file)->tensors().get(layer + "code_transform", DType::kF32, {-1});
    EXPECT_TRUE(view.ok()) << view.status().message();
    return std::vector<float>(view->as<float>(), view->as<float>() + view->n_elements());
  };
  EXPECT_EQ(transform("a.vctx"), transform("b.vctx"));
  ASSERT_TRUE(grown->feed(some_tokens(70, 3), nullptr).ok());
}

TEST_F(ExtendTest, FedTokensStay) {
  const auto tokens = some_tokens(600);
  auto a = read_all(*engine_, small_blocks(), part(tokens, 0, 300)),
       b = read_all(*engine_, small_blocks(), part(tokens, 0, 300));
  for (Context* context : {a.get(), b.get()}) {
    ASSERT_TRUE(context->feed(some_tokens(13, 3), nullptr).ok());
    EXPECT_FALSE(context->fork(small_blocks("full")).ok());
  }
  ASSERT_TRUE(a->extend(part(tokens, 300, 600), {}).ok());
  ASSERT_TRUE(b->extend(part(tokens, 300, 401), {}).ok());
  ASSERT_TRUE(b->extend(part(tokens, 401, 600), {}).ok());
  EXPECT_EQ(saved(*a), saved(*b, "y.vctx"));
  EXPECT_EQ(a->n_tokens(), 613);
}

TEST_F(ExtendTest, ForksSeeTheQueriesOfBothParts) {
  const auto tokens = some_tokens(1300);
  auto context = Context::create(*engine_, small_blocks("full"), {.n_kept_queries = 1024});
  ASSERT_TRUE(context.ok());
  ASSERT_TRUE((*context)->read(part(tokens, 0, 800), {}).ok());
  ASSERT_TRUE((*context)->finish_reading({}).ok());
  const auto early = (*context)->fork(small_blocks("vestige"));
  ASSERT_TRUE((*context)->extend(part(tokens, 800, 1300), {}).ok());
  const auto late = (*context)->fork(small_blocks("vestige"));
  ASSERT_TRUE(early.ok() && late.ok()) << late.status().message();
  EXPECT_EQ(saved(**early), saved(*read_all(*engine_, small_blocks(), part(tokens, 0, 800)), "y.vctx"));
  EXPECT_EQ(saved(**late), saved(*read_all(*engine_, small_blocks(), tokens), "y.vctx"));
  EXPECT_TRUE((*early)->fork(small_blocks("vestige")).ok());
}

TEST_F(ExtendTest, StoppedExtendingGoesOn) {
  const auto tokens = some_tokens(4000);
  const std::string want = saved(*read_all(*engine_, small_blocks(), tokens));
  auto context = read_all(*engine_, small_blocks(), part(tokens, 0, 700));
  const Status stopped = context->extend(part(tokens, 700, 4000), [](int64_t, int64_t) { return false; });
  EXPECT_EQ(stopped.code(), StatusCode::kCancelled);
  const int32_t token = 5;
  EXPECT_EQ(context->feed({&token, 1}, nullptr).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(context->logits().status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(context->save(folder_.file("x.vctx"), {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(context->fork(small_blocks()).status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(context->extend({}, {}).ok());
  EXPECT_EQ(saved(*context), want);
}

TEST_F(ExtendTest, ArgumentsAreChecked) {
  auto fresh = Context::create(*engine_, small_blocks());
  ASSERT_TRUE(fresh.ok());
  const auto tokens = some_tokens(100);
  EXPECT_EQ((*fresh)->extend(tokens, {}).code(), StatusCode::kInvalidArgument);
  auto context = read_all(*engine_, small_blocks(), tokens);
  const std::string before = saved(*context);
  const auto outside = static_cast<int32_t>(engine_->model().info().n_vocab);
  EXPECT_EQ(context->extend({&outside, 1}, {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(context->extend(some_tokens(engine_->model().info().max_tokens - 99), {}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(context->extend({}, {}).ok());
  EXPECT_EQ(saved(*context), before);
}

}  // namespace
}  // namespace vestige
