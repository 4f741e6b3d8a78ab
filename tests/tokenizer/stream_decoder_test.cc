// Text handed out as tokens come, and the UTF-8 and character classes under it.

#include <gtest/gtest.h>

#include <random>

#include "model/tokenizer/unicode.h"
#include "tests/tokenizer/cases.h"

namespace vestige {
namespace {

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Prefix prefix = match_utf8(text, at);
    if (!prefix.whole) return false;
    at += prefix.n_bytes;
  }
  return true;
}

class StreamDecoderTest : public testing::Test {
 protected:
  void SetUp() override {
    auto loaded = Tokenizer::load(test::kFixtures + "/kimi_tiny");
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    tokenizer_ = std::move(*loaded);
  }

  // The ids of single bytes, so that every character arrives in parts.
  std::vector<int32_t> byte_ids(std::string_view text) const {
    std::vector<int32_t> ids;
    for (char c : text) ids.push_back(*tokenizer_->token_id({&c, 1}));
    return ids;
  }

  std::string streamed(const std::vector<int32_t>& ids, StreamDecoder::Invalid invalid) const {
    StreamDecoder decoder(*tokenizer_, invalid);
    std::string all;
    for (int32_t id : ids) {
      std::string part;
      EXPECT_TRUE(decoder.push(id, &part).ok());
      EXPECT_TRUE(invalid == StreamDecoder::Invalid::kKeep || is_utf8(part));
      all += part;
    }
    decoder.finish(&all);
    return all;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(StreamDecoderTest, GivesTheWholeText) {
  for (const test::Case& c : test::read_cases("fuzz_kimi.bin")) {
    for (const std::vector<int32_t>& ids : {c.ids, byte_ids(c.text)}) {
      ASSERT_EQ(streamed(ids, StreamDecoder::Invalid::kReplace), c.text);
      ASSERT_EQ(streamed(ids, StreamDecoder::Invalid::kKeep), c.text);
    }
  }
}

TEST_F(StreamDecoderTest, HoldsBackAnUnfinishedCharacterOnly) {
  StreamDecoder decoder(*tokenizer_);
  std::string out;
  const std::vector<int32_t> ids = byte_ids("x\xf0\x9f\x98\x80");
  const std::vector<std::string> wanted = {"x", "x", "x", "x", "x\xf0\x9f\x98\x80"};
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_TRUE(decoder.push(ids[i], &out).ok());
    EXPECT_EQ(out, wanted[i]);
  }
  decoder.finish(&out);
  EXPECT_EQ(out, wanted.back());
}

TEST_F(StreamDecoderTest, KeepsAnyBytes) {
  std::mt19937 random(13);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 20, '\0');
    for (char& c : bytes) c = static_cast<char>(random() % 3 == 0 ? random() : 0x80 + random() % 0x75);
    EXPECT_EQ(streamed(byte_ids(bytes), StreamDecoder::Invalid::kKeep), bytes);
    EXPECT_TRUE(is_utf8(streamed(byte_ids(bytes), StreamDecoder::Invalid::kReplace)));
  }
}

// Right-hand sides: Python 3.11, bytes.decode("utf-8", "replace"); R stands for U+FFFD.
TEST_F(StreamDecoderTest, ReplacesAsPythonDoes) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\xff", "R"},
      {"\xe2\x82", "R"},
      {"\xe2\x82z", "Rz"},
      {"\xf0\x9f\x98z", "Rz"},
      {"\xc0\xaf", "RR"},
      {"\xed\xa0\x80", "RRR"},
      {"\xf4\x90\x80\x80", "RRRR"},
      {"\xf5", "R"},
      {"\xe0\x80\x80", "RRR"},
      {"\xf0\x80\x80\x80", "RRRR"},
      {"a\x80z", "aRz"},
      {"\xe2\xe2\x82\xac", "R\xe2\x82\xac"},
      {"\xf0\x9f\xf0\x9f", "RR"},
      {"\xc3\xc3\xa9", "R\xc3\xa9"},
  };
  for (const auto& [bytes, wanted] : cases) {
    std::string expanded;
    for (char c : wanted) expanded += c == 'R' ? std::string("\xef\xbf\xbd") : std::string(1, c);
    EXPECT_EQ(streamed(byte_ids(bytes), StreamDecoder::Invalid::kReplace), expanded) << testing::PrintToString(bytes);
  }
}

TEST_F(StreamDecoderTest, RefusesAnUnknownId) {
  StreamDecoder decoder(*tokenizer_);
  std::string out;
  ASSERT_TRUE(decoder.push(byte_ids("\xe2")[0], &out).ok());
  EXPECT_EQ(decoder.push(-1, &out).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(decoder.push(100000, &out).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(decoder.push(byte_ids("\x82")[0], &out).ok());
  ASSERT_TRUE(decoder.push(byte_ids("\xac")[0], &out).ok());
  EXPECT_EQ(out, "\xe2\x82\xac");
}

TEST(Unicode, Classes) {
  for (uint32_t c = 0; c < 128; ++c) EXPECT_EQ(char_class(c), search_char_class(c)) << c;
  for (size_t i = 1; i < kUnicodeRangeCount; ++i) EXPECT_LT(kUnicodeRanges[i - 1] >> 8, kUnicodeRanges[i] >> 8);
  const std::vector<std::pair<uint32_t, int>> known = {
      {0xc4, kUpper},
      {0x1c5, kUpper},
      {0xe4, kLower},
      {0x17f, kLower},
      {0x2b0, kOtherLetter},
      {0x301, kMark},
      {0x93e, kMark},
      {0xb2, kNumber},
      {0x216b, kNumber},
      {0x3007, kNumber | kHan},
      {0x85, kSpace},
      {0xa0, kSpace},
      {0x3000, kSpace},
      {0x200b, 0},
      {0x180e, 0},
      {0x1c, 0},
      {0x4e00, kOtherLetter | kHan},
      {0x2e80, kHan},
      {0x3042, kOtherLetter},
      {0xfffd, 0},
      {0x20000, kOtherLetter | kHan},
      {0x10ffff, 0},
  };
  for (const auto& [code_point, classes] : known) EXPECT_EQ(char_class(code_point), classes) << std::hex << code_point;
}

}  // namespace
}  // namespace vestige
