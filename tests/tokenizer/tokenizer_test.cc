// Ids against the libraries that define them, and what holds for any text.

#include "vestige/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/sha256.h"
#include "tests/tokenizer/cases.h"

namespace vestige {
namespace {

using test::decoded;
using test::encoded;
using test::kFixtures;
using test::kNano;

std::unique_ptr<Tokenizer> load(const std::string& folder) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::load(folder);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (char c : bytes) {
    out += "0123456789abcdef"[static_cast<uint8_t>(c) >> 4];
    out += "0123456789abcdef"[static_cast<uint8_t>(c) & 15];
  }
  return out;
}

struct Fixture {
  std::string folder, cases;
  size_t n_cases;
};

class FixtureTest : public testing::TestWithParam<Fixture> {};

TEST_P(FixtureTest, IdsEqualTheLibrary) {
  const auto tokenizer = load(GetParam().folder);
  ASSERT_NE(tokenizer, nullptr);
  const std::vector<test::Case> cases = test::read_cases(GetParam().cases);
  ASSERT_EQ(cases.size(), GetParam().n_cases);
  size_t n_wrong = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::vector<int32_t> ids = encoded(*tokenizer, cases[i].text);
    if (ids == cases[i].ids) continue;
    if (++n_wrong > 5) continue;
    const size_t at = static_cast<size_t>(
        std::mismatch(ids.begin(), ids.end(), cases[i].ids.begin(), cases[i].ids.end()).first - ids.begin());
    const std::string before = decoded(*tokenizer, {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(at)});
    ADD_FAILURE() << "case " << i << ": id " << at << " differs, " << ids.size() << " ids, want " << cases[i].ids.size()
                  << "; text from there: " << cases[i].text.substr(before.size(), 40) << " ("
                  << hex(cases[i].text.substr(before.size(), 20)) << ")";
  }
  EXPECT_EQ(n_wrong, 0u) << "of " << cases.size();
}

TEST_P(FixtureTest, DecodeGivesTheTextBack) {
  const auto tokenizer = load(GetParam().folder);
  ASSERT_NE(tokenizer, nullptr);
  for (const test::Case& c : test::read_cases(GetParam().cases)) {
    ASSERT_EQ(decoded(*tokenizer, c.ids), c.text);
    ASSERT_EQ(decoded(*tokenizer, encoded(*tokenizer, c.text, AddedTokens::kAsText)), c.text);
  }
}

TEST_P(FixtureTest, AnyBytesRoundTrip) {
  const auto tokenizer = load(GetParam().folder);
  ASSERT_NE(tokenizer, nullptr);
  std::mt19937 random(7);
  const std::vector<test::Case> cases = test::read_cases(GetParam().cases);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = round % 2 == 0 ? std::string(random() % 60, '\0') : cases[random() % cases.size()].text;
    for (char& c : bytes) {
      if (round % 2 == 0 || random() % 8 == 0) c = static_cast<char>(random());
    }
    for (AddedTokens added : {AddedTokens::kAsText, AddedTokens::kRecognised}) {
      ASSERT_EQ(decoded(*tokenizer, encoded(*tokenizer, bytes, added)), bytes) << hex(bytes);
    }
  }
}

TEST_P(FixtureTest, TextNeverBecomesASpecialToken) {
  const auto tokenizer = load(GetParam().folder);
  ASSERT_NE(tokenizer, nullptr);
  std::string all;
  int n_special = 0;
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
    if (!tokenizer->is_special(id)) continue;
    ++n_special;
    const std::string name(*tokenizer->token_bytes(id));
    EXPECT_EQ(encoded(*tokenizer, name), std::vector<int32_t>{id}) << name;
    for (const std::string& text : {name, " " + name, name + name, "x" + name + "\n"}) {
      for (int32_t got : encoded(*tokenizer, text, AddedTokens::kAsText)) EXPECT_FALSE(tokenizer->is_special(got));
    }
    all += name;
  }
  EXPECT_GT(n_special, 2);
  EXPECT_EQ(encoded(*tokenizer, all).size(), static_cast<size_t>(n_special));
  std::vector<int32_t> by_default;
  ASSERT_TRUE(tokenizer->encode(all, &by_default).ok());
  EXPECT_EQ(by_default, encoded(*tokenizer, all, AddedTokens::kAsText));
}

INSTANTIATE_TEST_SUITE_P(All, FixtureTest,
                         testing::Values(Fixture{kNano, "fuzz_bpe.bin", 10000},
                                         Fixture{kFixtures + "/split_tiny", "fuzz_split.bin", 2000},
                                         Fixture{kFixtures + "/kimi_tiny", "fuzz_kimi.bin", 2000}),
                         [](const auto& i) { return i.param.cases.substr(5, i.param.cases.size() - 9); });

TEST(Tokenizer, NamesAndIds) {
  const auto nano = load(kNano);
  const auto kimi = load(kFixtures + "/kimi_tiny");
  ASSERT_TRUE(nano && kimi);
  EXPECT_EQ(nano->token_id("<|eos|>"), 1);
  EXPECT_EQ(nano->token_id("no such token"), std::nullopt);
  EXPECT_EQ(nano->bos_id(), 0);
  EXPECT_EQ(nano->eos_id(), 1);
  EXPECT_EQ(nano->fingerprint(), *sha256_file(kNano + "/tokenizer.json"));
  EXPECT_EQ(nano->token_bytes(-1), std::nullopt);
  EXPECT_EQ(nano->token_bytes(static_cast<int32_t>(nano->vocab_size())), std::nullopt);
  EXPECT_EQ(kimi->vocab_size(), 600 + 258);
  EXPECT_EQ(kimi->bos_id(), 600);
  EXPECT_EQ(kimi->eos_id(), 602);
  EXPECT_TRUE(kimi->is_special(600));
  EXPECT_FALSE(kimi->is_special(611));  // <|tool_calls_section_begin|>
  EXPECT_EQ(kimi->token_id("<|reserved_token_605|>"), 605);
}

TEST(Tokenizer, AppendsAndLeavesTheOutputAloneOnError) {
  const auto nano = load(kNano);
  ASSERT_NE(nano, nullptr);
  std::vector<int32_t> ids = {7};
  ASSERT_TRUE(nano->encode("a", &ids).ok());
  EXPECT_EQ(ids.size(), 2u);
  EXPECT_EQ(ids[0], 7);
  std::string text = "kept";
  const std::vector<int32_t> bad = {ids[1], 999999};
  const Status status = nano->decode(bad, &text);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("ids[1] = 999999"), std::string::npos) << status.message();
  EXPECT_EQ(text, "kept");
}

TEST(Sha256, KnownAnswers) {
  Sha256 empty, abc;
  EXPECT_EQ(*empty.finish(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  abc.update("a");
  abc.update("bc");
  EXPECT_EQ(*abc.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_FALSE(abc.finish().ok());
  EXPECT_EQ(sha256_file("/no/such/file").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace vestige
