// A real model, SmolLM2-135M-Instruct as a GGUF file (scripts/get_smollm2.sh): its tokenizer against the library
// tokenizers (tests/tokenizer/make_smollm2_ids.py), and the greedy text of transformers on the same numbers
// (tests/parity/check_gguf.py).

#include <gtest/gtest.h>

#include <filesystem>

#include "base/json.h"
#include "vestige/engine.h"

namespace vestige {
namespace {

const std::string kRoot = VESTIGE_SOURCE_DIR;
const std::string kFile = kRoot + "/.data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

class SmolLM2 : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kFile)) GTEST_SKIP() << kFile << " is not there: scripts/get_smollm2.sh fetches it";
  }
};

TEST_F(SmolLM2, TokenizesAsTheLibraryDoes) {
  const auto tokenizer = Tokenizer::load(kFile);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const auto cases = read_json(kRoot + "/tests/tokenizer/smollm2_ids.json");
  ASSERT_TRUE(cases.ok()) << cases.status().message();
  ASSERT_GT(cases->size(), 300u);
  for (const auto& one : *cases) {
    const auto text = one.at("text").get<std::string>();
    std::vector<int32_t> ids;
    std::string back;
    ASSERT_TRUE((*tokenizer)->encode(text, AddedTokens::kRecognised, &ids).ok());
    EXPECT_EQ(ids, one.at("ids").get<std::vector<int32_t>>()) << text;
    ASSERT_TRUE((*tokenizer)->decode(ids, &back).ok());
    EXPECT_EQ(back, text);
  }
}

TEST_F(SmolLM2, GreedyTextIsThatOfTransformers) {
  const auto engine = Engine::create({.model_dir = kFile, .stream = {.n_threads = 2}, .model = {}});
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  PolicyConfig policy;
  policy.name = "full";
  policy.ratio = 1;
  const auto context = Context::create(**engine, policy);
  ASSERT_TRUE(context.ok()) << context.status().message();
  std::vector<int32_t> ids;
  ASSERT_TRUE((*engine)->tokenizer().encode("The capital of France is", &ids).ok());
  ASSERT_TRUE((*context)->read(ids, {}).ok());
  ASSERT_TRUE((*context)->finish_reading({}).ok());
  GenerateOptions options;
  options.n_tokens = 8;
  const auto result = generate(**engine, **context, options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->text, " Paris.\n\nThe answer is:");
}

}  // namespace
}  // namespace vestige
