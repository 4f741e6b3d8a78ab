// Text out of logits: sampling, stop strings, end tokens.

#include <cmath>
#include <limits>

#include "engine/sampler.h"
#include "engine/stop_filter.h"
#include "tests/engine/tiny_engine.h"

namespace vestige {
namespace {

TEST(SamplerTest, GreedyTakesTheLowerOfEqualIds) {
  const float logits[] = {1, 3, 2, 3};
  EXPECT_EQ(Sampler(0, 0).pick(logits), 1);
  const float with_nan[] = {std::numeric_limits<float>::quiet_NaN(), -1, -2};
  EXPECT_EQ(Sampler(0, 0).pick(with_nan), 1);
  EXPECT_NE(Sampler(1, 3).pick(with_nan), 0);
}

TEST(SamplerTest, DrawsAsOftenAsTheSoftmaxSays) {
  const float logits[] = {0, std::log(2.0f), std::log(5.0f)};
  Sampler sampler(1, 42);
  int counts[3] = {};
  for (int i = 0; i < 8000; ++i) ++counts[sampler.pick(logits)];
  EXPECT_NEAR(counts[0], 1000, 120);
  EXPECT_NEAR(counts[1], 2000, 160);
  EXPECT_NEAR(counts[2], 5000, 200);
}

TEST(SamplerTest, SameSeedSameDraws) {
  // Pinned: a seed means the same text on every machine and in every release.
  Pcg32 a(1), c(2);
  for (const uint32_t value : {1412771199u, 1791099446u, 124312908u}) {
    EXPECT_EQ(a.next(), value);
    EXPECT_NE(c.next(), value);
  }
  for (int i = 0; i < 1000; ++i) {
    const double u = a.uniform();
    EXPECT_TRUE(u >= 0 && u < 1);
  }
}

TEST(StopFilterTest, HoldsBackTheBeginningOfAStop) {
  StopFilter filter({"\n\n", "END"});
  EXPECT_EQ(filter.add("one\n"), "one");
  EXPECT_EQ(filter.add("two E"), "\ntwo ");
  EXPECT_EQ(filter.add("N"), "");
  EXPECT_EQ(filter.add("x"), "ENx");
  EXPECT_EQ(filter.add("yEND rest"), "y");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.add("more"), "");
  EXPECT_EQ(filter.finish(), "");
  EXPECT_EQ(filter.text(), "one\ntwo ENxy");
}

TEST(StopFilterTest, FinishGivesWhatWasHeld) {
  StopFilter filter({"stop"});
  EXPECT_EQ(filter.add("abc sto"), "abc ");
  EXPECT_EQ(filter.finish(), "sto");
  EXPECT_FALSE(filter.stopped());
  StopFilter none({""});
  EXPECT_EQ(none.add("abc"), "abc");
}

class GenerateTest : public ::testing::Test {
 protected:
  GenerateTest() : engine_(testing::make_engine(testing::make_tiny_model(folder_, "model"))) {}
  GenerateResult run(const GenerateOptions& options) {
    const auto context = testing::read_all(*engine_, testing::small_blocks(), testing::some_tokens(100));
    auto result = generate(*engine_, *context, options);
    EXPECT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(context->n_tokens(), 100 + static_cast<int64_t>(result->tokens.size()));
    return std::move(result).value();
  }
  testing::ScratchFolder folder_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(GenerateTest, SameOptionsSameTokens) {
  GenerateOptions options;
  options.n_tokens = 20;
  EXPECT_EQ(run(options).tokens, run(options).tokens);
  options.temperature = 1;
  options.seed = 5;
  const auto first = run(options);
  EXPECT_EQ(first.tokens, run(options).tokens);
  options.seed = 6;
  EXPECT_NE(first.tokens, run(options).tokens);
}

TEST_F(GenerateTest, StopsWhenAsked) {
  GenerateOptions options;
  options.n_tokens = 12;
  std::string pieces;
  options.on_text = [&](std::string_view piece) {
    pieces += piece;
    return true;
  };
  const auto whole = run(options);
  EXPECT_EQ(pieces, whole.text);
  EXPECT_TRUE(whole.finish_reason == "length" || whole.finish_reason == "stop");
  EXPECT_EQ(whole.record.n_steps, static_cast<int64_t>(whole.tokens.size()));
  options.on_text = [](std::string_view) { return false; };
  EXPECT_EQ(run(options).finish_reason, "cancelled");
  options.on_text = {};
  options.n_tokens = 0;
  EXPECT_TRUE(run(options).tokens.empty());
}

TEST_F(GenerateTest, AStopTextIsCutOff) {
  GenerateOptions options;
  options.n_tokens = 12;
  const auto whole = run(options);
  ASSERT_GE(whole.text.size(), 2u);
  const std::string stop = whole.text.substr(whole.text.size() / 2, 1 + whole.text.size() / 4);
  options.stop = {stop};
  const auto cut = run(options);
  EXPECT_EQ(cut.text, whole.text.substr(0, whole.text.find(stop)));
  EXPECT_EQ(cut.finish_reason, "stop");
}

TEST_F(GenerateTest, AnEndTokenStops) {
  GenerateOptions options;
  options.n_tokens = 12;
  const auto whole = run(options);
  ASSERT_FALSE(whole.tokens.empty());
  const int32_t end = whole.tokens.back();
  const std::string dir = testing::make_tiny_model(folder_, "ends");
  std::string config = testing::read_bytes(dir + "/config.json");
  const size_t at = config.find("\"eos_token_id\"");
  ASSERT_NE(at, std::string::npos);
  const size_t colon = config.find(':', at);
  config.replace(colon + 1, config.find_first_of(",}\n", colon) - colon - 1, std::to_string(end));
  testing::write_bytes(dir + "/config.json", config);
  engine_ = testing::make_engine(dir);
  ASSERT_NE(engine_, nullptr);
  const auto ended = run(options);
  EXPECT_EQ(ended.finish_reason, "stop");
  const auto first = std::find(whole.tokens.begin(), whole.tokens.end(), end);
  EXPECT_EQ(ended.tokens, std::vector<int32_t>(whole.tokens.begin(), first));
}

TEST_F(GenerateTest, AFullWindowEndsIt) {
  const int64_t window = engine_->model().info().max_tokens;
  const auto context = testing::read_all(*engine_, testing::small_blocks(), testing::some_tokens(window - 2));
  GenerateOptions options;
  options.n_tokens = 10;
  const auto result = generate(*engine_, *context, options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_LE(result->tokens.size(), 2u);
}

TEST_F(GenerateTest, AbsurdOptionsAreRefused) {
  const auto context = testing::read_all(*engine_, testing::small_blocks(), testing::some_tokens(10));
  GenerateOptions options;
  options.n_tokens = -1;
  EXPECT_EQ(generate(*engine_, *context, options).status().code(), StatusCode::kInvalidArgument);
  options.n_tokens = 1;
  options.temperature = -1;
  EXPECT_EQ(generate(*engine_, *context, options).status().code(), StatusCode::kInvalidArgument);
  options.temperature = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(generate(*engine_, *context, options).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace vestige
