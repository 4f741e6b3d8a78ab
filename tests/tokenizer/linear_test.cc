// Work counted, not timed: texts that punish slow code cost as many steps a character when they are four times as long.

#include <gtest/gtest.h>

#include <random>

#include "model/tokenizer/loader.h"
#include "model/tokenizer/split.h"
#include "tests/tokenizer/cases.h"

namespace vestige {
namespace {

std::string repeat(const std::string& unit, size_t n_bytes) {
  std::string text;
  while (text.size() < n_bytes) text += unit;
  return text;
}

// Texts of about n bytes.
std::vector<std::string> nasty(size_t n) {
  std::vector<std::string> texts;
  for (const char* unit : {"a",        "A",      " ",    "\n",       "\t",     "\r\n",    " \n",
                           "  \n   ",  "1",      "!",    "'",        "'s",     "'l",      "the",
                           "aA",       "中",     "ª",    "Ǆǅǆ",      "\u0301", "a\u0301", "\u0301A",
                           " \u0301A", "\u3000", "\xff", "\xe4\xb8", "<",      "<|",      "<|reserved_token_60"}) {
    texts.push_back(repeat(unit, n));
  }
  // One caseless letter that the scanner goes back to, over the whole run.
  texts.push_back(std::string("ª").append(repeat("A", n)));
  texts.push_back(std::string("\u0301").append(repeat("A", n)));
  texts.push_back(std::string("\n").append(repeat(" ", n)).append("x"));
  std::mt19937 random(5);
  std::string letters(n, 'a');
  for (char& c : letters) c = static_cast<char>('a' + random() % 26);
  texts.push_back(letters);
  return texts;
}

constexpr size_t kBytes = 20000;

TEST(Linear, Scanners) {
  for (SplitRule rule : {SplitRule::kDigits, SplitRule::kGpt2, SplitRule::kLlama3, SplitRule::kQwen2, SplitRule::kO200k,
                         SplitRule::kKimi}) {
    const std::vector<std::string> shorts = nasty(kBytes), longs = nasty(4 * kBytes);
    for (size_t i = 0; i < shorts.size(); ++i) {
      const auto chars_read = [&](const std::string& text) {
        Splitter splitter(rule, text);
        size_t at = 0;
        while (at < text.size()) {
          const size_t end = splitter.next(at);
          EXPECT_GT(end, at);
          if (end <= at) break;
          at = end;
        }
        EXPECT_EQ(at, text.size());
        return splitter.chars_read();
      };
      const uint64_t few = chars_read(shorts[i]), many = chars_read(longs[i]);
      EXPECT_LE(many, 9 * longs[i].size()) << "rule " << static_cast<int>(rule) << " text " << i;
      EXPECT_LE(many, few * 41 / 10 + 100) << "rule " << static_cast<int>(rule) << " text " << i;
    }
  }
}

TEST(Linear, Merges) {
  const auto nano = load_tokenizer_json(test::slurp(test::kNano + "/tokenizer.json"));
  const auto kimi = load_tiktoken(test::slurp(test::kFixtures + "/kimi_tiny/tiktoken.model"), "{}");
  ASSERT_TRUE(nano.ok()) << nano.status().message();
  ASSERT_TRUE(kimi.ok()) << kimi.status().message();
  for (const Vocabulary* v : {&*nano, &*kimi}) {
    for (const std::string& text : nasty(4 * kBytes)) {
      BpeScratch scratch;
      std::vector<int32_t> ids;
      v->bpe.encode(text, scratch, &ids);  // as one piece, which no pattern would make of some of them
      std::string back;
      for (int32_t id : ids) back += v->bpe.tokens.bytes(id);
      ASSERT_EQ(back, text);
      // Two look-ups a merge beside the first one of each pair, and each entry comes off the heap once.
      EXPECT_LE(scratch.steps, 6 * text.size());
    }
  }
}

// The scan for short pieces and the heap for long ones give the same ids.
TEST(Linear, ShortAndLongPiecesAgree) {
  const auto nano = load_tokenizer_json(test::slurp(test::kNano + "/tokenizer.json"));
  ASSERT_TRUE(nano.ok()) << nano.status().message();
  std::mt19937 random(11);
  const std::string letters = "etaoinshrdlu ";
  // A byte that merges with no letter keeps the two halves of a long piece apart.
  std::string wall;
  for (int b = 0; b < 256 && wall.empty(); ++b) {
    bool merges = false;
    const auto id = [&](int byte) {
      const char c = static_cast<char>(byte);
      return *nano->bpe.by_bytes.find(nano->bpe.tokens, {&c, 1});
    };
    for (int32_t other = 0; other < nano->bpe.tokens.size(); ++other) {
      merges = merges || nano->bpe.merges.find(id(b), other).rank != MergeTable::kNone ||
               nano->bpe.merges.find(other, id(b)).rank != MergeTable::kNone;
    }
    if (!merges) wall = static_cast<char>(b);
  }
  ASSERT_FALSE(wall.empty());
  BpeScratch scratch;
  for (int round = 0; round < 2000; ++round) {
    std::string word(1 + random() % 45, ' ');
    for (char& c : word) c = letters[random() % letters.size()];
    std::vector<int32_t> alone, twice;
    nano->bpe.encode(word, scratch, &alone);
    nano->bpe.encode(word + repeat(wall, 48) + word, scratch, &twice);
    ASSERT_EQ(twice.size(), 2 * alone.size() + 48);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), twice.begin())) << word;
    EXPECT_TRUE(std::equal(alone.rbegin(), alone.rend(), twice.rbegin())) << word;
  }
}

}  // namespace
}  // namespace vestige
