#include "eval/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "eval/cells.h"
#include "tests/engine/tiny_engine.h"

namespace vestige::eval {
namespace {

using ::testing::HasSubstr;
using vestige::testing::read_bytes;
using vestige::testing::ScratchFolder;
using vestige::testing::write_bytes;

const RunIdentity kIdentity{.vestige_version = "1", .model = "m", .tokenizer = "t", .seed = 3, .block_rows = 64};

Outcome some_outcome(int32_t trial, const std::string& arm, double nats, bool exact) {
  Outcome o{.task = "records", .length = 512, .trial = trial, .arm = arm, .nats = nats, .n_answer = 2, .exact = exact};
  o.record.n_steps = 4;
  o.record.n_scanned[1] = 9;
  o.record.omitted_max = 0.25;
  return o;
}

std::unique_ptr<Store> open(const std::string& dir, const RunIdentity& identity = kIdentity, Shard shard = {}) {
  auto store = Store::open(dir, identity, shard);
  EXPECT_TRUE(store.ok()) << store.status().message();
  return store.ok() ? std::move(*store) : nullptr;
}

TEST(Store, LinesComeBack) {
  const ScratchFolder folder;
  {
    const auto store = open(folder.file("run"));
    ASSERT_TRUE(store->add(some_outcome(0, "full", 0.1 + 0.2, true)).ok());
    ASSERT_TRUE(store->add(some_outcome(1, "full", std::nan(""), false)).ok());
    ASSERT_TRUE(store->add(GateOutcome{.gate = "fired", .length = 512, .subject = "a", .passed = true}).ok());
  }
  const auto store = open(folder.file("run"));
  ASSERT_EQ(store->outcomes().size(), 2u);
  EXPECT_EQ(outcome_line(store->outcomes()[0]), outcome_line(some_outcome(0, "full", 0.1 + 0.2, true)));
  EXPECT_TRUE(std::isnan(store->outcomes()[1].nats));
  EXPECT_TRUE(store->has("records", 512, 1, "full"));
  EXPECT_FALSE(store->has("records", 512, 2, "full"));
  ASSERT_NE(store->find_gate("fired", 512, "a"), nullptr);
}

TEST(Store, ACutLineIsDroppedAndWrittenAnew) {
  const ScratchFolder folder;
  const std::string path = folder.file("run") + "/results.jsonl";
  ASSERT_TRUE(open(folder.file("run"))->add(some_outcome(0, "full", 1, true)).ok());
  const std::string line = read_bytes(path);
  write_bytes(path, line + line.substr(0, line.size() / 2));
  {
    const auto store = open(folder.file("run"));
    EXPECT_EQ(store->outcomes().size(), 1u);
    ASSERT_TRUE(store->add(some_outcome(1, "full", 1, true)).ok());
  }
  EXPECT_EQ(read_bytes(path), line + outcome_line(some_outcome(1, "full", 1, true)) + "\n");
}

TEST(Store, AnotherRunsFolderIsRefused) {
  const ScratchFolder folder;
  open(folder.file("run"));
  RunIdentity other = kIdentity;
  other.model = "n";
  const auto store = Store::open(folder.file("run"), other, {});
  EXPECT_EQ(store.status().code(), StatusCode::kMismatch);
  EXPECT_THAT(store.status().message(), HasSubstr("model = \"m\""));
  RunIdentity aware = kIdentity;
  aware.aware = true;
  EXPECT_THAT(Store::open(folder.file("run"), aware, {}).status().message(), HasSubstr("aware = false"));
}

TEST(Store, DamageNamesTheLine) {
  const ScratchFolder folder;
  open(folder.file("run"));
  for (const char* text : {"{}\n", "nonsense\n", "{\"gate\": 3}\n"}) {
    write_bytes(folder.file("run") + "/results-0-of-2.jsonl", text);
    const auto store = Store::open(folder.file("run"), kIdentity, {});
    EXPECT_EQ(store.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(store.status().message(), HasSubstr("line 1"));
  }
}

TEST(Store, ShardsMeetInOneFolder) {
  const ScratchFolder folder;
  ASSERT_TRUE(open(folder.file("run"), kIdentity, {0, 2})->add(some_outcome(0, "full", 1, true)).ok());
  ASSERT_TRUE(open(folder.file("run"), kIdentity, {1, 2})->add(some_outcome(1, "full", 1, true)).ok());
  EXPECT_EQ(open(folder.file("run"))->outcomes().size(), 2u);
}

// Three trials, of which full attention solves 0 and 1; the arm is right in trial 1 and in 2, which does not count.
TEST(Cells, ArePairedWithFull) {
  const auto store = open("");
  for (const auto& [trial, nats, exact] : {std::tuple(0, 1.0, true), {1, 2.0, true}, {2, 9.0, false}}) {
    ASSERT_TRUE(store->add(some_outcome(trial, "full", nats, exact)).ok());
  }
  for (const auto& [trial, nats, exact] : {std::tuple(0, 5.0, false), {1, 2.5, true}, {2, 1.0, true}}) {
    ASSERT_TRUE(store->add(some_outcome(trial, "random:32", nats, exact)).ok());
  }
  Grid grid;
  grid.lengths = {512};
  grid.ratios = {32};
  grid.tasks.push_back(*find_task("records"));
  grid.arms = *parse_arms("random", grid.ratios, 4096);
  const auto cells = make_cells(grid, *store);
  ASSERT_TRUE(cells.ok());
  ASSERT_EQ(cells->size(), 2u);
  const Cell& cell = (*cells)[1];
  EXPECT_EQ(cell.arm, "random:32");
  EXPECT_EQ(cell.n_trials, 3);
  EXPECT_EQ(cell.n_counted, 2);
  EXPECT_EQ(cell.n_right, 1);
  EXPECT_DOUBLE_EQ(cell.delta_nats.value, (4.0 + 0.5) / 2);
  EXPECT_EQ(cell.record.n_steps, 8);
  EXPECT_EQ(cell.record.omitted_max, 0.25);
  EXPECT_EQ((*cells)[0].n_right, 2);
}

}  // namespace
}  // namespace vestige::eval
