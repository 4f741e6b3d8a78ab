#include "eval/run_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "eval/gates.h"
#include "tests/engine/tiny_engine.h"

namespace vestige::eval {
namespace {

using ::testing::HasSubstr;
using vestige::testing::make_engine;
using vestige::testing::make_tiny_model;
using vestige::testing::ScratchFolder;

class RunGrid : public ::testing::Test {
 protected:
  void SetUp() override {
    engine_ = make_engine(make_tiny_model(folder_, "model"), 1);
    ASSERT_NE(engine_, nullptr);
    corpus_ = vestige::testing::some_tokens(4000);
    grid_.tasks.push_back(*find_task("ce"));
    grid_.lengths = {256};
    grid_.n_trials = 2;
    grid_.ratios = {8};
    grid_.block_rows = 64;
    grid_.arms = *parse_arms("vestige,streaming", grid_.ratios, grid_.block_rows);
  }
  std::unique_ptr<Store> open(const std::string& name) {
    auto store = Store::open(folder_.file(name), {.seed = grid_.seed, .block_rows = grid_.block_rows}, grid_.shard);
    EXPECT_TRUE(store.ok()) << store.status().message();
    return std::move(*store);
  }
  Status run(Store& store, const WatchFn& watch = {}) { return run_grid(*engine_, grid_, corpus_, store, watch); }

  /// Lines without the clock.
  static std::vector<std::string> lines(const Store& store) {
    std::vector<std::string> out;
    for (Outcome o : store.outcomes()) {
      o.record.attend_us = 0;
      out.push_back(outcome_line(o));
    }
    return out;
  }

  ScratchFolder folder_;
  std::unique_ptr<Engine> engine_;
  std::vector<int32_t> corpus_;
  Grid grid_;
};

TEST_F(RunGrid, EveryArmOfEveryTrialOnce) {
  const auto store = open("a");
  ASSERT_TRUE(run(*store).ok());
  EXPECT_EQ(store->outcomes().size(), 6u);
  EXPECT_TRUE(failed_gates(grid_, *store).empty()) << failed_gates(grid_, *store)[0];
  for (const Outcome& o : store->outcomes()) {
    EXPECT_EQ(o.n_answer, 128);
    EXPECT_GT(o.nats, 0);
    EXPECT_EQ(o.record.n_steps, 127 * static_cast<int64_t>(engine_->model().info().cache_layers.size()));
  }
  ASSERT_TRUE(run(*store).ok());
  EXPECT_EQ(store->outcomes().size(), 6u);
}

TEST_F(RunGrid, GoesOnWhereItWasStopped) {
  const auto whole = open("whole");
  ASSERT_TRUE(run(*whole).ok());
  for (int n_calls : {1, 8, 400}) {
    const std::string name = "part" + std::to_string(n_calls);
    EXPECT_EQ(run(*open(name), [&](double, const std::string&) { return --n_calls > 0; }).code(),
              StatusCode::kCancelled);
    const auto store = open(name);
    EXPECT_LT(store->outcomes().size(), 6u);
    ASSERT_TRUE(run(*store).ok());
    EXPECT_EQ(lines(*store), lines(*whole));
  }
}

TEST_F(RunGrid, ShardsDoTheSameTrials) {
  const auto whole = open("whole");
  ASSERT_TRUE(run(*whole).ok());
  for (int32_t i : {1, 0}) {
    grid_.shard = {i, 2};
    ASSERT_TRUE(run(*open("shards")).ok());
  }
  EXPECT_EQ(lines(*open("shards")), lines(*whole));
}

// The question stands in the document: full attention answers as before, and a folder holds one kind or the other.
TEST_F(RunGrid, AwareReadsTheQuestionWithTheDocument) {
  grid_.aware = true;
  EXPECT_EQ(run(*open("text")).code(), StatusCode::kInvalidArgument);  // ce asks nothing
  grid_.aware = false;
  grid_.tasks = {{.name = "asked",
                  .sentence = "",
                  .source = "",
                  .measure = Measure::kText,
                  .make = [](TrialSource& source) -> Result<Trial> {
                    VESTIGE_ASSIGN(const std::vector<int32_t> text, source.corpus_run(256 + 9));
                    Trial trial;
                    trial.document.assign(text.begin(), text.begin() + 256);
                    trial.segments.push_back({{text.begin() + 256, text.end() - 3}, {text.end() - 3, text.end()}});
                    return trial;
                  }}};
  const auto blind = open("a");
  ASSERT_TRUE(run(*blind).ok());
  grid_.aware = true;
  const auto aware = open("b");
  ASSERT_TRUE(run(*aware).ok());
  ASSERT_EQ(aware->outcomes().size(), blind->outcomes().size());
  for (size_t i = 0; i < aware->outcomes().size(); ++i) {
    const Outcome &a = aware->outcomes()[i], &b = blind->outcomes()[i];
    if (a.arm == "full") {
      EXPECT_NEAR(a.nats, b.nats, 1e-3 * b.nats);
    }
    EXPECT_EQ(a.n_answer, b.n_answer);
    EXPECT_EQ(a.record.n_steps, b.record.n_steps);
  }
}

// Below one block nothing is compressed: a table would show that every policy is perfect.
TEST_F(RunGrid, RefusesWhenNothingIsCompressed) {
  grid_.block_rows = 192;
  grid_.arms = *parse_arms("streaming", grid_.ratios, grid_.block_rows);
  const auto store = open("a");
  ASSERT_TRUE(run(*store).ok());
  EXPECT_TRUE(store->outcomes().empty());
  ASSERT_EQ(failed_gates(grid_, *store).size(), 1u);
  EXPECT_THAT(failed_gates(grid_, *store)[0], HasSubstr("gate fired, length 256, streaming:8"));
}

// The same queries and rows for both: full attention is itself, and what a policy leaves out is within what it
// certifies.
TEST_F(RunGrid, FidelityOfFullIsExact) {
  grid_.tasks = {*find_task("fidelity")};
  const auto store = open("a");
  ASSERT_TRUE(run(*store).ok());
  ASSERT_EQ(store->outcomes().size(), 6u);
  for (const Outcome& o : store->outcomes()) {
    const bool full = o.arm == "full";
    EXPECT_EQ(o.numbers.at("relative output error, most") == 0, full) << o.arm;
    EXPECT_EQ(o.numbers.at("omitted mass, most") == 0, full) << o.arm;
    EXPECT_EQ(o.numbers.at("layer-steps that break their certificate"), 0) << o.arm;
    const double due = o.numbers.at("best archived rows over the threshold");
    const bool recalls = o.arm.starts_with("vestige");
    EXPECT_EQ(o.numbers.at("best archived rows over the threshold, lost"), recalls ? 0 : due) << o.arm;
    EXPECT_EQ(due == 0, full) << o.arm;
    EXPECT_EQ(o.numbers.at("layer-steps"), 64 * static_cast<double>(engine_->model().info().cache_layers.size()));
  }
}

TEST_F(RunGrid, LeakageGateSeesAnAnswerThatNeedsNoCache) {
  const std::vector<Arm> arms = *parse_arms("streaming:128", grid_.ratios, grid_.block_rows);
  Trial trial;
  trial.document = vestige::testing::some_tokens(128);
  trial.segments.push_back({{7, 8}, {0}});
  const auto base = read_document(*engine_, trial.document, arms, {});
  ASSERT_TRUE(base.ok());
  const auto destroyed = fork_arm(*engine_, **base, trial, arms[1], {});
  ASSERT_TRUE(destroyed.ok());
  ASSERT_TRUE((*destroyed)->feed(trial.segments[0].prompt, nullptr).ok());
  const auto logits = (*destroyed)->logits();
  ASSERT_TRUE(logits.ok());
  const auto guess = static_cast<int32_t>(std::max_element(logits->begin(), logits->end()) - logits->begin());
  for (const int32_t answer : {guess, guess == 0 ? 1 : 0}) {
    trial.segments[0].answer = {answer};
    const auto gate = leakage_gate(*engine_, **base, trial, {});
    ASSERT_TRUE(gate.ok()) << gate.status().message();
    EXPECT_EQ(gate->passed, answer != guess);
  }
}

TEST(ScoreToken, ByHand) {
  const std::vector<float> logits = {0.0f, std::log(3.0f)};
  EXPECT_NEAR(score_token(logits, 1).nats, std::log(4.0 / 3), 1e-7);
  EXPECT_TRUE(score_token(logits, 1).best);
  EXPECT_NEAR(score_token(logits, 0).nats, std::log(4.0), 1e-7);
  EXPECT_FALSE(score_token(logits, 0).best);
  const std::vector<float> tie = {1.0f, 1.0f};
  EXPECT_TRUE(score_token(tie, 0).best);
  EXPECT_FALSE(score_token(tie, 1).best);
}

}  // namespace
}  // namespace vestige::eval
