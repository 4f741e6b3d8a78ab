// Files that are cut, wrong or malicious: an error that names the place, never a crash and never a half-right load.

#include <gtest/gtest.h>

#include <random>

#include "base/json.h"
#include "model/tokenizer/loader.h"
#include "tests/tokenizer/cases.h"

namespace vestige {
namespace {

using test::decoded;
using test::encoded;

void append_utf8(uint32_t code_point, std::string* to) {
  if (code_point < 0x80) {
    *to += static_cast<char>(code_point);
  } else {
    *to += static_cast<char>(0xc0 | code_point >> 6);
    *to += static_cast<char>(0x80 | (code_point & 0x3f));
  }
}

// "name": id, for all 256 bytes, in the alphabet of ByteLevel.
std::string byte_vocab() {
  std::string out;
  uint32_t other = 0x100;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool kept = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    out += out.empty() ? "\"" : ",\"";
    if (b == '"' || b == '\\') out += '\\';
    append_utf8(kept ? b : other++, &out);
    out.append("\":").append(std::to_string(b));
  }
  return out;
}

// A whole small tokenizer.json, in which tests replace parts.
std::string small_json() {
  std::string text =
      R"({"added_tokens":[{"id":260,"content":"<s>","special":true,"normalized":false}],"normalizer":null,)"
      R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},"post_processor":null,)"
      R"("decoder":{"type":"ByteLevel"},"model":{"type":"BPE","dropout":null,"ignore_merges":false,"vocab":{)";
  text += byte_vocab();
  return text + R"(,"ab":256,"aa":257,"aaa":258},"merges":["a b",["a","a"],"aa a","a aa"]}})";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

Status load_status(const test::Folder& folder) { return Tokenizer::load(folder.path()).status(); }

TEST(HostileTokenizerJson, SmallFileIsGood) {
  const test::Folder folder;
  folder.write("tokenizer.json", small_json());
  const auto tokenizer = Tokenizer::load(folder.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  // Merges that build the same token in two ways stop, for every length.
  for (size_t n = 0; n < 200; ++n) {
    const std::string text(n, 'a');
    EXPECT_EQ(decoded(**tokenizer, encoded(**tokenizer, text)), text);
  }
  EXPECT_EQ(encoded(**tokenizer, "<s>aab"), (std::vector<int32_t>{260, 'a', 256}));
  EXPECT_EQ((*tokenizer)->vocab_size(), 261);
  EXPECT_EQ((*tokenizer)->token_bytes(259), std::nullopt);
}

TEST(HostileTokenizerJson, CutAnywhere) {
  const std::string whole = small_json();
  for (size_t n = 0; n < whole.size(); ++n) {
    const auto cut = load_tokenizer_json(std::string_view(whole).substr(0, n));
    ASSERT_EQ(cut.status().code(), StatusCode::kDataLoss) << n;
  }
  const test::Folder folder;
  folder.write("tokenizer.json", whole.substr(0, 1000));
  EXPECT_NE(load_status(folder).message().find("/tokenizer.json: "), std::string::npos);
}

TEST(HostileTokenizerJson, ChangedAnywhere) {
  std::mt19937 random(3);
  const std::string whole = small_json();
  const std::string junk = "{}[]\",:0-9eE\\tfn\xff\x01 ";
  const std::string piece = "aaab <s> \xff";
  int n_good = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text = whole;
    for (int i = 0; i < 1 + round % 3; ++i) text[random() % text.size()] = junk[random() % junk.size()];
    const auto v = load_tokenizer_json(text);
    if (!v.ok()) continue;
    ++n_good;
    BpeScratch scratch;
    std::vector<int32_t> ids;
    v->bpe.encode(piece, scratch, &ids);
    std::string back;
    for (int32_t id : ids) back += v->bpe.tokens.bytes(id);
    ASSERT_EQ(back, piece);
  }
  EXPECT_GT(n_good, 0);
  EXPECT_LT(n_good, 4000);
}

struct Change {
  std::string from, to;
  StatusCode code;
  std::string says;
};

TEST(HostileTokenizerJson, NamesWhatIsWrong) {
  constexpr StatusCode kBad = StatusCode::kDataLoss, kNot = StatusCode::kUnsupported;
  const std::string byte_level = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})";
  const std::vector<Change> changes = {
      {"\"ab\":256", "\"ab\":-1", kBad, "token id -1"},
      {"\"ab\":256", "\"ab\":4194304", kBad, "4194304"},
      {"\"ab\":256", "\"ab\":99999999999999999999", kBad, "ab"},
      {"\"ab\":256", "\"ab\":18446744073709551615", kBad, "ab"},
      {"\"ab\":256", "\"ab\":1.5", kBad, "ab"},
      {"\"ab\":256", "\"ab\":\"256\"", kBad, "ab"},
      {"\"ab\":256", "\"ab\":257", kBad, "twice"},
      {"\"ab\":256", "\"ab\":256,\"ab\":300", kBad, "second time"},
      {"\"ab\":256", "\"x\\ud800\":256", kBad, "byte"},
      {"\"ab\":256", "\"xy\":256", kBad, "merges[0]"},
      {"\"a b\"", "\"a\"", kBad, "merges[0]"},
      {"\"a b\"", "\"a  b\"", kBad, "merges[0]"},
      {"\"a b\"", "\" b\"", kBad, "merges[0]"},
      {"\"a b\"", "7", kBad, "merges[0]"},
      {"\"a b\"", "[\"a\",\"b\",\"c\"]", kBad, "merges[0]"},
      {"\"a b\"", "[\"a\",null]", kBad, "merges[0]"},
      {"\"a b\"", "\"a zz\"", kBad, "\"zz\""},
      {",\"merges\":[", ",\"nerges\":[", kBad, "model.merges"},
      {"\"vocab\":{", "\"vocap\":{", kBad, "model.vocab"},
      {"\"ignore_merges\":false", "\"ignore_merges\":1", kBad, "ignore_merges"},
      {"\"A\":65,", "", kNot, "byte 0x41"},
      {"\"type\":\"BPE\"", "\"type\":\"Unigram\"", kNot, "Unigram"},
      {"\"dropout\":null", "\"dropout\":0.1", kNot, "dropout"},
      {"\"dropout\":null", "\"end_of_word_suffix\":\"</w>\"", kNot, "end_of_word_suffix"},
      {"\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}", kNot, "NFC"},
      {"\"normalizer\":null", "\"normalizer\":[]", kBad, "normalizer"},
      {byte_level, "null", kNot, "without ByteLevel"},
      {byte_level, "{\"type\":\"Metaspace\"}", kNot, "Metaspace"},
      {byte_level, "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", kNot, "add_prefix_space"},
      {byte_level, "{\"type\":\"ByteLevel\",\"add_prefix_space\":3}", kBad, "add_prefix_space"},
      {byte_level, "{\"type\":\"Sequence\",\"pretokenizers\":7}", kBad, "pretokenizers"},
      {byte_level, "{\"type\":\"Sequence\",\"pretokenizers\":[7]}", kBad, "pretokenizers"},
      {byte_level, "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"}," + byte_level + "]}", kNot,
       "individual_digits"},
      {byte_level, "{\"type\":\"Sequence\",\"pretokenizers\":[" + byte_level + ",{\"type\":\"Digits\"}]}", kNot,
       "Digits after ByteLevel"},
      {byte_level, R"({"type":"Split","pattern":{"Regex":"\\w+"},"behavior":"Isolated"})", kNot, "\\w+"},
      {byte_level, R"({"type":"Split","pattern":{"String":" "},"behavior":"Isolated"})", kNot, "Regex"},
      {"\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":null", kNot, "decoder null"},
      {"\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":{\"type\":\"Fuse\"}", kNot, "Fuse"},
      {"\"post_processor\":null", "\"post_processor\":{\"type\":\"BertProcessing\"}", kNot, "BertProcessing"},
      {"\"id\":260", "\"id\":-4", kBad, "added_tokens"},
      {"\"id\":260", "\"id\":1e9", kBad, "added_tokens"},
      {"\"id\":260", "\"id\":97", kBad, "97"},
      {"\"content\":\"<s>\"", "\"content\":\"\"", kBad, "empty"},
      {"\"content\":\"<s>\"", "\"content\":[]", kBad, "content"},
      {"\"content\":\"<s>\"", "\"content\":\"ab\"", kBad, "ab"},
      {"\"special\":true", "\"special\":\"yes\"", kBad, "special"},
      {"\"special\":true", "\"lstrip\":true", kNot, "lstrip"},
      {"\"special\":true", "\"single_word\":true", kNot, "single_word"},
      {"[{\"id\":260", "[3,{\"id\":260", kBad, "added_tokens"},
      {"\"content\":\"<s>\"", "\"content\":\"a\",\"id2\":0", kBad, "\"a\""},
      {"\"id\":260,\"content\":\"<s>\"", "\"id\":97,\"content\":\"a\"", kNot, "byte 0x61"},
  };
  const test::Folder folder;
  for (const Change& change : changes) {
    folder.write("tokenizer.json", replaced(small_json(), change.from, change.to));
    const Status status = load_status(folder);
    EXPECT_EQ(status.code(), change.code) << change.to << ": " << status.message();
    EXPECT_NE(status.message().find(change.says), std::string::npos) << change.to << ": " << status.message();
  }
}

// A merge may not lead to a special token, nor may a piece that is its name: text must not become one.
TEST(HostileTokenizerJson, SpecialTokensInsideTheVocabulary) {
  const test::Folder folder;
  const std::string special = R"([{"id":256,"content":"ab","special":true},{"id":260,)";
  for (const char* ignore : {"false", "true"}) {
    std::string text = replaced(small_json(), "[{\"id\":260,", special);
    folder.write("tokenizer.json",
                 replaced(text, "\"ignore_merges\":false", std::string("\"ignore_merges\":") + ignore));
    const auto tokenizer = Tokenizer::load(folder.path());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    EXPECT_EQ(encoded(**tokenizer, "ab", AddedTokens::kAsText), (std::vector<int32_t>{'a', 'b'}));
    EXPECT_EQ(encoded(**tokenizer, "ab", AddedTokens::kRecognised), std::vector<int32_t>{256});
  }
}

TEST(HostileTokenizerConfig, BosAndEos) {
  const test::Folder folder;
  folder.write("tokenizer.json", small_json());
  folder.write("tokenizer_config.json", R"({"bos_token":{"content":"<s>"},"eos_token":null})");
  const auto tokenizer = Tokenizer::load(folder.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->bos_id(), 260);
  EXPECT_EQ((*tokenizer)->eos_id(), std::nullopt);
  for (const char* bad : {R"({"bos_token":"<none>"})", R"({"eos_token":3})", "{", ""}) {
    folder.write("tokenizer_config.json", bad);
    EXPECT_EQ(load_status(folder).code(), StatusCode::kDataLoss) << bad;
  }
}

TEST(HostileTiktoken, NamesWhatIsWrong) {
  const std::string model = test::slurp(test::kFixtures + "/kimi_tiny/tiktoken.model");
  const std::string config = test::slurp(test::kFixtures + "/kimi_tiny/tokenizer_config.json");
  const std::string first = model.substr(0, model.find('\n') + 1);
  const test::Folder folder;
  EXPECT_EQ(load_status(folder).code(), StatusCode::kNotFound);
  const std::vector<Change> lines = {
      {first, "", StatusCode::kDataLoss, "no token of rank 0"},
      {first, first + first, StatusCode::kDataLoss, "line 2"},
      {first, "IQ== -1\n", StatusCode::kDataLoss, "line 1"},
      {first, "IQ== 99999999999\n", StatusCode::kDataLoss, "line 1"},
      {first, "IQ== 4194304\n", StatusCode::kDataLoss, "line 1"},
      {first, "IQ== 0 1\n", StatusCode::kDataLoss, "line 1"},
      {first, "IQ==0\n", StatusCode::kDataLoss, "line 1"},
      {first, "I*== 0\n", StatusCode::kDataLoss, "base64"},
      {first, "=Q== 0\n", StatusCode::kDataLoss, "base64"},
      {first, " 0\n", StatusCode::kDataLoss, "base64"},
      {first, "ISE= 0\n", StatusCode::kUnsupported, "byte 0x21"},
      {first, "Ig== 0\n", StatusCode::kDataLoss, "same bytes"},
  };
  for (const Change& change : lines) {
    folder.write("tiktoken.model", replaced(model, change.from, change.to));
    const Status status = load_status(folder);
    EXPECT_EQ(status.code(), change.code) << change.to << ": " << status.message();
    EXPECT_NE(status.message().find(change.says), std::string::npos) << change.to << ": " << status.message();
  }
  folder.write("tiktoken.model", model);
  EXPECT_TRUE(load_status(folder).ok()) << "without tokenizer_config.json all 258 are reserved tokens";
  const std::vector<Change> settings = {
      {"\"600\"", "\"599\"", StatusCode::kDataLoss, "599"},
      {"\"600\"", "\"x\"", StatusCode::kDataLoss, "\"x\""},
      {"\"600\"", "\"99999999999999999999\"", StatusCode::kDataLoss, "added_tokens_decoder"},
      {"\"[EOS]\"", "\"[BOS]\"", StatusCode::kDataLoss, "twice"},
      {"TikTokenTokenizer", "OtherTokenizer", StatusCode::kUnsupported, "tokenizer_class"},
      {"\"lstrip\": false", "\"lstrip\": true", StatusCode::kUnsupported, "lstrip"},
  };
  for (const Change& change : settings) {
    folder.write("tokenizer_config.json", replaced(config, change.from, change.to));
    const Status status = load_status(folder);
    EXPECT_EQ(status.code(), change.code) << change.to << ": " << status.message();
    EXPECT_NE(status.message().find(change.says), std::string::npos) << change.to << ": " << status.message();
  }
  // Without the last two of its 600 lines the file is whole again, and the config's ids, up to 855, still follow.
  for (size_t n = 0; n + 60 < model.size(); ++n) {
    EXPECT_FALSE(load_tiktoken(std::string_view(model).substr(0, n), config).ok()) << n;
  }
}

// Tokens of 1 to 2,000 letters 'a': two million ways to cut them, each to be hashed.
TEST(HostileTiktoken, LongTokensAreRefused) {
  const test::Folder folder;
  std::string model;
  for (size_t n = 1; n <= 2000; ++n) {
    for (size_t i = 0; i < n; ++i) model += "YWFh";
    model.append(" ").append(std::to_string(n - 1)).append("\n");
  }
  folder.write("tiktoken.model", model);
  const Status status = load_status(folder);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("too long"), std::string::npos) << status.message();
}

TEST(Json, Limits) {
  const auto says = [](const std::string& text, const JsonLimits& limits = {}) {
    const auto parsed = parse_json(text, limits);
    return parsed.ok() ? "ok" : parsed.status().message();
  };
  EXPECT_EQ(says(std::string(64, '[') + std::string(64, ']')), "ok");
  EXPECT_NE(says(std::string(65, '[') + std::string(65, ']')).find("byte 65: nested deeper than 64"), std::string::npos)
      << says(std::string(65, '[') + std::string(65, ']'));
  EXPECT_NE(says(std::string(1000000, '[')).find("deeper"), std::string::npos);
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_NE(says(objects).find("deeper"), std::string::npos);
  EXPECT_NE(says(R"({"a":1,"b":{"a":2},"a":3})").find("\"a\""), std::string::npos);
  EXPECT_EQ(says(R"({"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]})"), "ok");
  EXPECT_NE(says("[1,2,3]", {.max_values = 3}).find("more than 3 values"), std::string::npos);
  EXPECT_NE(says("[1,2,3]", {.max_bytes = 6}).find("7 bytes"), std::string::npos);
  for (const char* bad : {"", " ", "nul", "[1,]", "{\"a\" 1}", "[1] 2", "\"\xff\"", "\"\\ud800\"", "1e999", "NaN",
                          "// c\n1", "'a'", "[", "\"a"}) {
    EXPECT_NE(says(bad).find("at byte"), std::string::npos) << bad << ": " << says(bad);
  }
  EXPECT_EQ(read_json("/no/such/file").status().code(), StatusCode::kNotFound);
}

TEST(Json, ValuesAreAsNlohmannHasThem) {
  const std::string text = small_json() + " \n";
  EXPECT_EQ(*parse_json(text), nlohmann::json::parse(text));
  for (const char* one : {"null", "true", "-7", "18446744073709551615", "1.5e3", "\"\\u00e9\\n\"", "[]", "{}",
                          R"([[],{},[{"a":[1,[2]]}],null])"}) {
    EXPECT_EQ(*parse_json(one), nlohmann::json::parse(one)) << one;
  }
}

}  // namespace
}  // namespace vestige
