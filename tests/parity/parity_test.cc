// Holds our forward pass against what transformers computes (tests/parity/*/expected.safetensors, made by
// make_fixtures.py): hidden states after every layer, logits, recurrent states and greedy tokens.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <ostream>

#include "base/safetensors.h"
#include "base/sha256.h"
#include "tests/model/sequence_run.h"
#include "vestige/model.h"

namespace vestige {
namespace {

constexpr double kBound = 1e-4;  // of the largest value, float32 rows
// bf16 rows: 8 bits of mantissa in every key and value; found: 3.9e-3 with moe_tiny, 1.5e-2 with the deepseek ones
// (every layer attends), 6.8e-4 with nano.
constexpr double kRoundedBound = 2e-2;

struct Case {
  const char* fixture;
  const char* backend;
  bool gguf = false;  ///< the same weights from FIXTURE/model.gguf (make_gguf.py)
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.fixture << (one.gguf ? ".gguf" : "") << " on " << one.backend;
}

std::string model_dir(const std::string& fixture) {
  if (fixture != "nano") return std::string(VESTIGE_SOURCE_DIR "/tests/parity/") + fixture;
  const char* elsewhere = std::getenv("VESTIGE_PARITY_NANO");
  return elsewhere != nullptr ? elsewhere : VESTIGE_SOURCE_DIR "/models/nano";
}

double relative_error(std::span<const float> got, std::span<const float> want) {
  EXPECT_EQ(got.size(), want.size());
  double worst = 0, largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(got[i])) return INFINITY;
    worst = std::max(worst, std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
    largest = std::max(largest, std::abs(static_cast<double>(want[i])));
  }
  return worst / largest;
}

int32_t argmax(std::span<const float> x) {
  return static_cast<int32_t>(std::max_element(x.begin(), x.end()) - x.begin());
}

class ParityTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const std::string dir = model_dir(GetParam().fixture);
    if (!std::filesystem::exists(dir + "/config.json")) GTEST_SKIP() << dir << " is not there";
    const std::string path = std::string(VESTIGE_SOURCE_DIR "/tests/parity/") + GetParam().fixture;
    auto expected = SafetensorsFile::open(path + "/expected.safetensors");
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    expected_ = std::move(expected).value();
    for (const auto& [key, digest] : expected_.metadata()) {
      if (!key.starts_with("sha256:")) continue;
      auto found = sha256_file(dir + "/" + key.substr(7));
      ASSERT_TRUE(found.ok()) << found.status().message();
      ASSERT_EQ(*found, digest) << key.substr(7) << " changed since the fixture: run tests/parity/make_fixtures.py";
    }
    auto stream = Stream::create({.backend = GetParam().backend, .n_threads = 2});
    ASSERT_TRUE(stream.ok()) << stream.status().message();
    stream_ = std::move(stream).value();
    load(DType::kF32);
  }

  void load(DType row_dtype) {
    auto model =
        Model::load(model_dir(GetParam().fixture) + (GetParam().gguf ? "/model.gguf" : ""), {.row_dtype = row_dtype});
    ASSERT_TRUE(model.ok()) << model.status().message();
    model_ = std::move(model).value();
  }

  std::span<const int32_t> integers(const char* name) const {
    const ConstTensorView view = *expected_.find(name);
    return {view.as<int32_t>(), static_cast<size_t>(view.n_elements())};
  }
  std::span<const float> floats(const std::string& name) const {
    const ConstTensorView view = *expected_.find(name);
    return {view.as<float>(), static_cast<size_t>(view.n_elements())};
  }

  /// Rows of `all` [t, d] at the positions the fixture holds.
  std::vector<float> at_positions(const std::vector<float>& all) const {
    if (expected_.entry("positions") == nullptr) return all;
    const size_t d = static_cast<size_t>(model_->info().d_model);
    std::vector<float> out;
    for (int32_t i : integers("positions")) {
      out.insert(out.end(), all.begin() + static_cast<ptrdiff_t>(i * d),
                 all.begin() + static_cast<ptrdiff_t>((i + 1) * d));
    }
    return out;
  }

  void expect_equal(const SequenceRun& run, const std::string& what, double bound) {
    const size_t n_layers = static_cast<size_t>(model_->info().n_layers);
    const size_t d = static_cast<size_t>(model_->info().d_model), t = integers("ids").size();
    double worst = 0;
    const auto want = floats("hidden");
    const size_t n = want.size() / (n_layers + 1);
    for (size_t i = 0; i <= n_layers; ++i) {
      ASSERT_EQ(run.hidden[i].size(), t * d);
      const double error = relative_error(at_positions(run.hidden[i]), want.subspan(i * n, n));
      EXPECT_LT(error, bound) << what << ": hidden after " << i << " layers";
      worst = std::max(worst, error);
    }
    const std::vector<float>& final_norm = run.hidden[n_layers + 1];
    const double final_error = relative_error(at_positions(final_norm), floats("final_norm"));
    EXPECT_LT(final_error, bound) << what << ": final norm";
    EXPECT_TRUE(std::equal(run.last.begin(), run.last.end(), final_norm.end() - static_cast<ptrdiff_t>(d)));

    const auto want_logits = floats("logits");
    const size_t n_vocab = static_cast<size_t>(model_->info().n_vocab), n_rows = want_logits.size() / n_vocab;
    std::vector<float> logits;
    for (size_t i = t - n_rows; i < t; ++i) {
      const auto row = run.logits(final_norm.data() + i * d);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    const double logits_error = relative_error(logits, want_logits);
    EXPECT_LT(logits_error, bound) << what << ": logits";
    std::printf("%s %s %s: hidden %.1e, final norm %.1e, logits %.1e\n", GetParam().fixture, GetParam().backend,
                what.c_str(), worst, final_error, logits_error);
  }

  SafetensorsFile expected_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Model> model_;
};

TEST_P(ParityTest, PrefillInAnyCutThenGreedy) {
  const auto ids = integers("ids");
  for (size_t tile : {size_t{2048}, size_t{64}}) {
    SequenceRun run(*model_, *stream_);
    for (size_t at = 0; at < ids.size(); at += tile) {
      run.feed(ids.subspan(at, std::min(tile, ids.size() - at)), true);
    }
    expect_equal(run, "prefill by " + std::to_string(tile), kBound);
    MapStore sink;
    ASSERT_TRUE(run.state->save("", sink).ok());
    for (const auto& [name, got] : sink.values) {  // "kda.<layer>.state"
      const std::string want = "state." + name.substr(4, name.find('.', 4) - 4);
      if (!name.ends_with(".state") || expected_.entry(want) == nullptr) continue;
      EXPECT_LT(relative_error(got, floats(want)), kBound) << name;
    }
    for (int32_t want : integers("greedy")) {
      const int32_t got = argmax(run.logits(run.last.data()));
      ASSERT_EQ(got, want) << "after " << run.n_tokens << " tokens";
      run.feed({&got, 1}, false);
    }
  }
}

TEST_P(ParityTest, DecodeFromTheFirstToken) {
  const auto ids = integers("ids");
  SequenceRun one(*model_, *stream_);
  for (size_t i = 0; i < ids.size(); ++i) one.feed(ids.subspan(i, 1), false);
  expect_equal(one, "decode", kBound);
  EXPECT_EQ(one.record.n_steps, static_cast<int64_t>(ids.size() * one.caches.size()));
  EXPECT_EQ(one.record.n_archived, 0);
  EXPECT_EQ(one.record.n_recalled, 0);

  SequenceRun many(*model_, *stream_);
  many.feed(ids.first(3), false);
  many.feed(ids.subspan(3), false);
  for (size_t i = 0; i < one.hidden.size(); ++i) {
    ASSERT_EQ(one.hidden[i].size(), many.hidden[i].size());
    EXPECT_EQ(0, std::memcmp(one.hidden[i].data(), many.hidden[i].data(), one.hidden[i].size() * sizeof(float)))
        << "many tokens a call gave other bits after " << i << " layers";
  }
}

TEST_P(ParityTest, RoundedRowsStayClose) {
  load(DType::kBF16);
  const auto ids = integers("ids");
  SequenceRun prefill(*model_, *stream_), decode(*model_, *stream_);
  prefill.feed(ids, true);
  expect_equal(prefill, "prefill, bf16 rows", kRoundedBound);
  decode.feed(ids, false);
  expect_equal(decode, "decode, bf16 rows", kRoundedBound);
}

TEST_P(ParityTest, EveryPositionPredictsTheSameToken) {
  const auto ids = integers("ids");
  SequenceRun run(*model_, *stream_);
  run.feed(ids, true);
  const size_t d = static_cast<size_t>(model_->info().d_model), v = static_cast<size_t>(model_->info().n_vocab);
  std::vector<int32_t> want;
  if (expected_.entry("argmax") != nullptr) {
    want.assign(integers("argmax").begin(), integers("argmax").end());
  } else {
    const auto logits = floats("logits");
    for (size_t i = 0; i < ids.size(); ++i) want.push_back(argmax(logits.subspan(i * v, v)));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(argmax(run.logits(run.hidden.back().data() + i * d)), want[i]) << "position " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Fixtures, ParityTest,
    testing::Values(Case{"moe_tiny", "ref"}, Case{"moe_tiny", "cpu"}, Case{"deepseek_tiny", "ref"},
                    Case{"deepseek_tiny", "cpu"}, Case{"deepseek_dense_tiny", "cpu"}, Case{"kimi_rope_tiny", "cpu"},
                    Case{"llama_tiny", "ref"}, Case{"llama_tiny", "cpu"}, Case{"mistral_tiny", "cpu"},
                    Case{"qwen2_tiny", "cpu"}, Case{"qwen3_tiny", "ref"}, Case{"qwen3_tiny", "cpu"},
                    Case{"llama_tiny", "ref", true}, Case{"llama_tiny", "cpu", true}, Case{"qwen2_tiny", "cpu", true},
                    Case{"qwen3_tiny", "cpu", true}, Case{"nano", "cpu"}),
    [](const auto& one) {
      return std::string(one.param.fixture) + (one.param.gguf ? "_gguf_" : "_") + one.param.backend;
    });

}  // namespace
}  // namespace vestige
