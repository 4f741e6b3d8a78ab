// Coverage on real rows: nano-gqa reads project text; no bound is broken, and what certifies nothing is called so.

#include "eval/coverage.h"

#include <gtest/gtest.h>

#include "eval/run_grid.h"
#include "tests/engine/certify_run.h"
#include "tests/engine/tiny_engine.h"

namespace vestige::eval {
namespace {

TEST(Coverage, HoldsOnNano) {
  const std::string dir = VESTIGE_SOURCE_DIR;
  const auto engine = vestige::testing::make_engine(dir + "/models/nano-gqa", 2);
  ASSERT_NE(engine, nullptr);
  std::vector<int32_t> corpus;
  ASSERT_TRUE(engine->tokenizer().encode(vestige::testing::prose(dir, 3, 12000), &corpus).ok());
  Grid grid;
  grid.tasks = {*find_task("coverage")};
  grid.lengths = {512};
  grid.n_trials = 1;
  grid.block_rows = 256;
  grid.arms = *parse_arms("anchor:3@certificate=on,sketch_bytes=32,anchor:5,klt:5", grid.ratios, grid.block_rows);
  const vestige::testing::ScratchFolder folder;
  const auto store = Store::open(folder.file("a"), {.seed = grid.seed, .block_rows = grid.block_rows}, grid.shard);
  ASSERT_TRUE(store.ok());
  const Status status = run_grid(*engine, grid, corpus, **store, {});
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ((*store)->outcomes().size(), 4u);
  for (const Outcome& o : (*store)->outcomes()) {
    SCOPED_TRACE(o.arm);
    const bool full = o.arm == "full", certified = o.arm.find("certificate") != std::string::npos;
    for (const char* broken :
         {"heads and steps that break Theorem 1 as published", "heads and steps that break Theorem 1",
          "heads and steps that break the per-step bound", "layer-steps that break their certificate"}) {
      EXPECT_EQ(o.numbers.at(broken), 0) << broken;
    }
    const double n = o.numbers.at("heads and steps"),
                 capped = o.numbers.at("heads and steps, certified no better than the cap");
    EXPECT_GT(n, 500);
    EXPECT_LE(capped, full ? 0 : certified ? n / 2 : n);
    if (!full) {
      EXPECT_EQ(capped == n, !certified);
      EXPECT_GT(o.numbers.at("attended tokens, key error, most"), o.numbers.at("attended tokens, key error, median"));
      EXPECT_LE(o.numbers.at("output error, mean"), o.numbers.at("certified by the policy, mean"));
    } else {
      EXPECT_EQ(o.numbers.at("attended tokens, key error, most"), 0);
    }
  }
}

TEST(Coverage, Verdicts) {
  Numbers good = {{"attended tokens, worst cosine", 0.9},
                  {"attended tokens, key error, most over median of a head", 2},
                  {"mu, most", 1},
                  {"output error by values alone, mean", 0.2},
                  {"output error by weights alone, mean", 0.1}};
  const auto with = [&good](const char* name, double value) {
    Numbers numbers = good;
    numbers[name] = value;
    return coverage_verdicts(numbers);
  };
  EXPECT_STREQ(coverage_verdicts(good).reviewer, "settled");
  EXPECT_STREQ(coverage_verdicts(good).certificate, "settled");
  EXPECT_STREQ(with("attended tokens, worst cosine", 0.8).reviewer, "open");
  EXPECT_STREQ(with("attended tokens, worst cosine", 0.69).reviewer, "violated");
  EXPECT_STREQ(with("attended tokens, key error, most over median of a head", 4).reviewer, "violated");
  EXPECT_STREQ(with("output error by weights alone, mean", 0.3).reviewer, "open");
  EXPECT_STREQ(with("heads and steps, certified no better than the cap", 1).certificate, "vacuous");
  EXPECT_STREQ(with("heads and steps that break Theorem 1", 1).certificate, "violated");
  EXPECT_STREQ(with("layer-steps that break their certificate", 0.05).certificate, "violated");
}

}  // namespace
}  // namespace vestige::eval
