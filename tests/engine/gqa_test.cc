// Contexts of a model with grouped-query attention: one cache a key-value head. What holds for latent attention holds
// here under every policy: files, forks, cuts and growth do not change a byte.

#include <numeric>

#include "base/safetensors.h"
#include "cache/policies/anchor/anchor_index.h"
#include "tests/engine/tiny_engine.h"

namespace vestige {
namespace {

using testing::logits_of;
using testing::read_all;
using testing::read_bytes;
using testing::small_blocks;
using testing::some_tokens;

class GqaTest : public ::testing::Test {
 protected:
  GqaTest()
      : engine_(testing::make_engine(
            testing::with_byte_tokens(testing::make_tiny_model(folder_, "model", "", "llama_tiny")))) {}
  void SetUp() override { ASSERT_NE(engine_, nullptr); }

  std::string saved(const Context& context, const char* name = "x.vctx") {
    const Status status = context.save(folder_.file(name), {});
    EXPECT_TRUE(status.ok()) << status.message();
    return read_bytes(folder_.file(name));
  }
  std::unique_ptr<Context> loaded(const char* name) {
    auto file = ContextFile::open(folder_.file(name));
    EXPECT_TRUE(file.ok()) << file.status().message();
    if (!file.ok()) return nullptr;
    auto context = Context::load(*engine_, *file);
    EXPECT_TRUE(context.ok()) << context.status().message();
    return context.ok() ? std::move(context).value() : nullptr;
  }

  testing::ScratchFolder folder_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(GqaTest, OneCacheForEachKeyValueHead) {
  const std::vector<CacheLayer>& layers = engine_->model().info().cache_layers;
  ASSERT_EQ(layers.size(), 4u) << "two layers of two";
  for (int32_t i = 0; i < 4; ++i) {
    const CacheLayer& layer = layers[static_cast<size_t>(i)];
    EXPECT_EQ(layer.layer, i / 2);
    EXPECT_EQ(layer.head, i % 2);
    EXPECT_EQ(layer.h_q, 3);
    EXPECT_EQ(layer.layout, (RowLayout{12, 12, DType::kBF16, false}));
    EXPECT_FLOAT_EQ(layer.scale, 1.0f / std::sqrt(12.0f));
  }
}

TEST_F(GqaTest, EveryPolicySavesLoadsAndForksToTheSameBytes) {
  const auto tokens = some_tokens(1100), question = some_tokens(70, 5);  // the question closes a block
  auto source = Context::create(*engine_, small_blocks("full"), {.n_kept_queries = INT64_MAX});
  ASSERT_TRUE(source.ok() && (*source)->read(tokens, {}).ok() && (*source)->finish_reading({}).ok());
  for (const PolicyInfo& info : policy_infos()) {
    // Heads of 12 are none of their widths: see below.
    const std::string name = info.name;
    if (name == "anchor" || name == "klt" || name == "turboquant") continue;
    SCOPED_TRACE(info.name);
    const auto fresh = read_all(*engine_, small_blocks(info.name), tokens);
    ASSERT_NE(fresh, nullptr);
    const std::string bytes = saved(*fresh, "fresh.vctx");
    if (info.name != std::string("oracle")) {  // its queries are given by hand
      auto fork = (*source)->fork(small_blocks(info.name));
      ASSERT_TRUE(fork.ok()) << fork.status().message();
      EXPECT_EQ(saved(**fork), bytes);
    }
    const auto again = loaded("fresh.vctx");
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(logits_of(*again), logits_of(*fresh));
    StepRecord first, second;
    ASSERT_TRUE(fresh->feed(question, &first).ok());
    ASSERT_TRUE(again->feed(question, &second).ok());
    EXPECT_EQ(logits_of(*again), logits_of(*fresh));
    EXPECT_EQ(first.read_bytes, second.read_bytes);
    EXPECT_EQ(first.n_steps, 70 * 4);
    EXPECT_EQ(saved(*again), saved(*fresh));
  }
}

// Caches agree on how many rows each keeps; blocks that close later, and files, go on with these shares.
TEST_F(GqaTest, CachesShareABudgetOfKeptRows) {
  const auto counts = [](const Context& context, int64_t usual) {
    std::vector<int64_t> n;
    for (const LayerCache* cache : context.caches()) {
      n.push_back(cache->n_kept());
      EXPECT_EQ(cache->policy().n_keep(cache->n_closed()), usual);
    }
    return n;
  };
  const auto settings = [](const char* name) {
    PolicyConfig config = small_blocks(name);
    config.ratio = 8;
    config.n_sinks = 0;
    return config;
  };
  const auto tokens = some_tokens(1030), question = some_tokens(70, 5);
  for (const char* name : {"snapkv", "adakv", "pyramidkv"}) {
    SCOPED_TRACE(name);
    const auto context = read_all(*engine_, settings(name), tokens);
    ASSERT_NE(context, nullptr);
    saved(*context, "shared.vctx");
    const auto again = loaded("shared.vctx");
    const std::vector<int64_t> before = counts(*context, 128);  // of 1,024 closed rows
    EXPECT_EQ(counts(*again, 128), before);
    EXPECT_EQ(std::accumulate(before.begin(), before.end(), int64_t{0}), 4 * 128);
    ASSERT_TRUE(context->feed(question, nullptr).ok() && again->feed(question, nullptr).ok());
    const std::vector<int64_t> after = counts(*context, 136);
    EXPECT_EQ(counts(*again, 136), after);
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(double(after[i]), double(before[i]) * 136 / 128, 0.5);
    const bool by_layer = name == std::string("pyramidkv"), by_head = name == std::string("adakv");
    if (by_layer) {
      EXPECT_EQ(before, (std::vector<int64_t>{250, 250, 6, 6}));  // 128 / 20 = 6.4, 256 - 6.4 = 249.6
    } else {
      EXPECT_EQ(before[0] + before[1], 256);
      EXPECT_EQ(before[0] != 128 || before[2] != 128, by_head);
    }
  }
}

TEST_F(GqaTest, CutsThreadsAndGrowthChangeNothing) {
  const auto tokens = some_tokens(2600);
  const auto once = read_all(*engine_, small_blocks(), tokens);
  const std::string bytes = saved(*once);
  EXPECT_EQ(saved(*read_all(*engine_, small_blocks(), tokens, 37)), bytes);
  const auto other = testing::make_engine(folder_.file("model"), 1);
  EXPECT_EQ(saved(*read_all(*other, small_blocks(), tokens)), bytes);
  const std::vector<int32_t> begin(tokens.begin(), tokens.begin() + 900);
  const auto grown = read_all(*engine_, small_blocks(), begin);
  ASSERT_TRUE(grown->extend(std::span<const int32_t>(tokens).subspan(900), {}).ok());
  for (size_t i = 0; i < once->caches().size(); ++i) {
    EXPECT_EQ(grown->caches()[i]->kept_ids(), once->caches()[i]->kept_ids()) << i;
  }
}

// Policies whose codes need heads of some widths: the nano model.
class CodedContext : public ::testing::TestWithParam<const char*> {};

TEST_P(CodedContext, SavesLoadsForksAndGrowsToTheSameBytes) {
  testing::ScratchFolder folder;
  const auto engine = testing::make_engine(std::string(VESTIGE_SOURCE_DIR) + "/models/nano-gqa");
  ASSERT_NE(engine, nullptr);
  const auto tokens = some_tokens(300), question = some_tokens(70, 5);  // the question closes a block
  const auto bytes_of = [&](const Context& context) {
    EXPECT_TRUE(context.save(folder.file("x.vctx"), {}).ok());
    return read_bytes(folder.file("x.vctx"));
  };
  const auto fresh = read_all(*engine, small_blocks(GetParam()), tokens);
  ASSERT_NE(fresh, nullptr);
  const std::string bytes = bytes_of(*fresh);
  EXPECT_EQ(bytes_of(*read_all(*engine, small_blocks(GetParam()), tokens, 37)), bytes);
  auto source = Context::create(*engine, small_blocks("full"), {.n_kept_queries = INT64_MAX});
  ASSERT_TRUE(source.ok() && (*source)->read(tokens, {}).ok() && (*source)->finish_reading({}).ok());
  auto fork = (*source)->fork(small_blocks(GetParam()));
  ASSERT_TRUE(fork.ok()) << fork.status().message();
  EXPECT_EQ(bytes_of(**fork), bytes);
  testing::write_bytes(folder.file("y.vctx"), bytes);
  auto file = ContextFile::open(folder.file("y.vctx"));
  ASSERT_TRUE(file.ok());
  auto again = Context::load(*engine, *file);
  ASSERT_TRUE(again.ok()) << again.status().message();
  StepRecord first, second;
  ASSERT_TRUE(fresh->feed(question, &first).ok() && (*again)->feed(question, &second).ok());
  EXPECT_EQ(logits_of(**again), logits_of(*fresh));
  EXPECT_GT(first.n_coded, 0);
  EXPECT_EQ(first.read_bytes, second.read_bytes);
  EXPECT_EQ(bytes_of(**again), bytes_of(*fresh));
}

INSTANTIATE_TEST_SUITE_P(Policies, CodedContext, ::testing::Values("anchor", "klt", "kivi", "turboquant"));

// What the policy drops is gone from the file too; the document grows in decode form; other policies are refused.
TEST(AnchorContext, DropsRows) {
  testing::ScratchFolder folder;
  const auto engine = testing::make_engine(std::string(VESTIGE_SOURCE_DIR) + "/models/nano-gqa");
  ASSERT_NE(engine, nullptr);
  const auto tokens = some_tokens(700), more = some_tokens(150, 5);
  const auto bytes_of = [&](const Context& context, const char* name) {
    EXPECT_TRUE(context.save(folder.file(name), {}).ok());
    return read_bytes(folder.file(name));
  };
  const auto load = [&](const char* name, const LoadOptions& options = {}) {
    return Context::load(*engine, ContextFile::open(folder.file(name)).value(), options);
  };
  PolicyConfig anchor = small_blocks("anchor");
  const auto context = read_all(*engine, anchor, tokens);
  ASSERT_NE(context, nullptr);
  for (const LayerCache* cache : context->caches()) EXPECT_TRUE(cache->rows_dropped());
  const auto full = read_all(*engine, small_blocks("full"), tokens);
  EXPECT_LT(bytes_of(*context, "a.vctx").size(), bytes_of(*full, "full.vctx").size() / 2);

  EXPECT_EQ(context->fork(small_blocks("full")).status().code(), StatusCode::kUnsupported);
  const Status refused = load("a.vctx", {.policy = small_blocks("full")}).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnsupported);
  EXPECT_NE(refused.message().find("dropped"), std::string::npos) << refused.message();
  EXPECT_TRUE(load("full.vctx", {.policy = small_blocks("streaming")}).ok());

  auto grown = load("a.vctx"), fed = load("a.vctx");
  ASSERT_TRUE(grown.ok() && fed.ok());
  ASSERT_TRUE((*fed)->feed(more, nullptr).ok());
  int n_left = 7;  // stopped on the way, and called again
  const Status stopped = (*grown)->extend(more, [&](int64_t, int64_t) { return --n_left > 0; });
  EXPECT_EQ(stopped.code(), StatusCode::kCancelled);
  EXPECT_EQ((*grown)->feed(more, nullptr).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE((*grown)->extend({}, {}).ok());
  EXPECT_EQ((*grown)->n_tokens(), 850);
  EXPECT_EQ(logits_of(**grown), logits_of(**fed));
  EXPECT_EQ(bytes_of(**grown, "b.vctx"), bytes_of(**fed, "c.vctx"));
}

// The file is codes, sinks, window and tail, to the byte; and the codes of a layer are what the heads' plans add up to.
TEST(AnchorContext, FileBytesAreThoseOfTheCodes) {
  const auto engine = testing::make_engine(std::string(VESTIGE_SOURCE_DIR) + "/models/nano-gqa");
  ASSERT_NE(engine, nullptr);
  testing::ScratchFolder folder;
  const auto context = read_all(*engine, small_blocks("anchor"), some_tokens(530));
  ASSERT_TRUE(context->save(folder.file("a.vctx"), {}).ok());
  int64_t n_rows = 0, n_codes = 0, layer_codes = 0;
  const int64_t n_anchors = anchor::segment_settings({.ratio = 8}, 512 - 36, 64)->n_anchors;
  const auto plan = anchor::plan_bytes(
      {.n_tokens = 512 - 36, .window = 0, .n_anchors = n_anchors, .n_heads = 1, .d = 64}, anchor::lean_layout(32), 8);
  ASSERT_TRUE(plan.ok());
  for (size_t i = 0; i < context->caches().size(); ++i) {
    const LayerCache::Bytes b = context->caches()[i]->bytes();
    n_codes += b.codes;
    n_rows += b.kept_arena + b.scores + 18 * 256 + 24 + 8 + 1 + 4 + 40;  // counts, dropped, ready, norm, sizes
    layer_codes = (i % 2 == 0 ? 0 : layer_codes) + b.codes;
    if (i % 2 == 1) {
      EXPECT_EQ(layer_codes, 2 * plan->total_bytes());
    }
  }
  const auto file = SafetensorsFile::open(folder.file("a.vctx"));
  ASSERT_TRUE(file.ok());
  int64_t in_layers = 0, in_codes = 0;
  for (const SafetensorsEntry& t : file->tensors()) {
    if (!t.name.starts_with("layers.")) continue;
    in_layers += static_cast<int64_t>(t.n_bytes);
    if (t.name.find(".anchor0_") != std::string::npos) in_codes += static_cast<int64_t>(t.n_bytes);
  }
  EXPECT_EQ(in_codes, n_codes);
  EXPECT_EQ(in_layers, n_codes + n_rows);
}

// A document of less than a block is read on densely, and coded once it is long enough.
TEST(AnchorContext, ShortDocumentsGrowDensely) {
  const auto engine = testing::make_engine(std::string(VESTIGE_SOURCE_DIR) + "/models/nano-gqa");
  ASSERT_NE(engine, nullptr);
  testing::ScratchFolder folder;
  const auto tokens = some_tokens(1200);
  const auto whole = read_all(*engine, small_blocks("anchor"), tokens);
  const auto grown = read_all(*engine, small_blocks("anchor"), {tokens.begin(), tokens.begin() + 50});
  ASSERT_TRUE(grown->extend(std::span<const int32_t>(tokens).subspan(50), {}).ok());
  ASSERT_TRUE(whole->save(folder.file("a"), {}).ok() && grown->save(folder.file("b"), {}).ok());
  EXPECT_EQ(read_bytes(folder.file("a")), read_bytes(folder.file("b")));
}

// Nothing is left out: recall in mode sound with a threshold below everything attends what full attention attends.
TEST_F(GqaTest, RecallOfEverythingIsFullAttention) {
  const auto tokens = some_tokens(1100), question = some_tokens(20, 5);
  PolicyConfig all = small_blocks();
  all.settings = {{"mode", 1}, {"margin", 50}};
  const auto a = read_all(*engine_, all, tokens), b = read_all(*engine_, small_blocks("full"), tokens);
  StepRecord record;
  ASSERT_TRUE(a->feed(question, &record).ok() && b->feed(question, nullptr).ok());
  EXPECT_GT(record.n_recalled + record.n_overflowed, 0);
  const std::vector<float> got = logits_of(*a), want = logits_of(*b);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-4f);
}

// A policy sees each key-value head's rows alone, so heads of a layer keep different ones.
TEST_F(GqaTest, HeadsChooseTheirOwnRows) {
  const auto context = read_all(*engine_, small_blocks("snapkv"), some_tokens(1100));
  EXPECT_NE(context->caches()[0]->kept_ids(), context->caches()[1]->kept_ids());
}

}  // namespace
}  // namespace vestige
