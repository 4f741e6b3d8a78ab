// Certificates on real rows: the nano model reads a document and decodes, each step, layer and head checked against
// float64 attention. bench/certify_bench.cc runs more of them.

#include <gtest/gtest.h>

#include "tests/engine/certify_run.h"

namespace vestige::testing {
namespace {

TEST(CertifyTest, HoldsOnEveryStepOfNano) {
  const std::string dir = VESTIGE_SOURCE_DIR, nano = dir + "/models/nano";
  const auto model = Model::load(nano, {});
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto tokenizer = Tokenizer::load(nano);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const auto stream = std::move(Stream::create({.n_threads = 2, .pin_threads = false})).value();
  const CertifyRun runs[] = {{.kind = "needle", .seed = 1, .settings = {{"mode", 1}}},
                             {.kind = "records", .seed = 2, .settings = {{"mode", 0}, {"n_refit", 4}}},
                             {.kind = "text", .seed = 3, .settings = {{"mode", 2}}}};
  for (const CertifyRun& run : runs) {
    SCOPED_TRACE(run.kind);
    const auto checks = certify_run(**model, **tokenizer, dir, run, *stream);
    ASSERT_TRUE(checks.ok()) << checks.status().message();
    EXPECT_EQ(checks->n_broken(), 0) << checks->first_broken;
    EXPECT_EQ(checks->n_steps, run.n_steps * static_cast<int64_t>((*model)->info().cache_layers.size()));
    EXPECT_GT(checks->n_cases, 100000);
    EXPECT_GT(checks->n_left_out, checks->n_cases / 4);
  }
}

}  // namespace
}  // namespace vestige::testing
