#include "model/config.h"

#include <gtest/gtest.h>

#include "checkpoint.h"
#include "model/arch/kimi_linear_config.h"

namespace vestige {
namespace {

Config parse(const std::string& text) {
  auto config = Config::parse(text, "config.json");
  EXPECT_TRUE(config.ok()) << config.status().message();
  return std::move(config).value();
}

TEST(ConfigTest, ReadsNumbersInTheirRange) {
  const Config config = parse(R"({"n": 5, "old": 7, "x": 0.5, "yes": true, "none": null, "list": [1, 2], "one": 3})");
  EXPECT_EQ(*config.integer({"n", 1, 5}), 5);
  EXPECT_EQ(*config.integer({"new", 1, 9, IntKey::kRequired, "old"}), 7);
  EXPECT_EQ(*config.integer({"none", 1, 9, 4}), 4);
  EXPECT_EQ(*config.real({"x", 0, 1}), 0.5);
  EXPECT_EQ(*config.real({"n", 0, 9}), 5.0) << "an integer is a number";
  EXPECT_TRUE(*config.flag("yes", false));
  EXPECT_EQ(*config.integers({"list", 0, 9}), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(*config.integers({"one", 0, 9}), std::vector<int64_t>{3});
  EXPECT_TRUE(config.integers({"nothing", 0, 9})->empty());
}

TEST(ConfigTest, ErrorsNameKeyValueAndRange) {
  const Config config = parse(R"({"n": 70000, "text": "x", "half": 0.5, "huge": 18446744073709551615})");
  const Status status = config.integer({"n", 1, 65536}).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), "config.json: n = 70000, want an integer in [1, 65536]");
  EXPECT_EQ(config.integer({"missing", 1, 2}).status().message(),
            "config.json: missing is missing, want an integer in [1, 2]");
  for (const char* key : {"text", "half", "huge"}) EXPECT_FALSE(config.integer({key, 0, INT64_MAX}).ok()) << key;
  EXPECT_FALSE(config.real({"text", 0, 1}).ok());
  EXPECT_FALSE(config.flag("n", true).ok());
  EXPECT_FALSE(config.text("n", "").ok());
  EXPECT_FALSE(config.integers({"half", 0, 1}).ok());
  EXPECT_FALSE(config.section("n").ok());
  EXPECT_FALSE(Config::parse("[1]", "config.json").ok());
  EXPECT_FALSE(Config::parse("{", "config.json").ok());
}

TEST(KimiLinearConfigTest, ReadsEveryKey) {
  const auto c = read_kimi_linear_config(parse(Checkpoint::moe_tiny().config));
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_EQ(c->n_vocab, 256);
  EXPECT_EQ(c->n_layers, 4);
  EXPECT_EQ(c->is_kda, (std::vector<bool>{true, true, false, true}));
  EXPECT_EQ(c->is_dense, (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(c->mla.d_row(), 48);
  EXPECT_EQ(c->moe.n_groups, 4);
  EXPECT_FLOAT_EQ(c->eps, 1e-3f);
  EXPECT_EQ(c->eos_ids, std::vector<int32_t>{1});
  EXPECT_EQ(c->max_tokens, 4096);
}

struct Edit {
  const char *from, *to, *message;
  StatusCode code = StatusCode::kDataLoss;
};

TEST(KimiLinearConfigTest, RefusesWhatItCannotCompute) {
  const Edit edits[] = {
      {"\"vocab_size\": 256", "\"vocab_size\": 0", "vocab_size = 0, want"},
      {"\"hidden_size\": 32", "\"hidden_size\": \"32\"", "hidden_size = \"32\", want"},
      {"\"hidden_size\": 32,", "", "hidden_size is missing"},
      {"\"rms_norm_eps\": 0.001", "\"rms_norm_eps\": -1", "rms_norm_eps = -1, want"},
      {"\"eos_token_id\": 1", "\"eos_token_id\": [1, 256]", "eos_token_id = 256, want"},
      {"\"topk_group\": 2", "\"topk_group\": 5", "topk_group = 5, want"},
      {"\"num_expert_group\": 4", "\"num_expert_group\": 3", "want a divisor"},
      {"\"num_experts_per_token\": 3", "\"num_experts_per_token\": 9", "num_experts_per_token = 9"},
      {"\"num_experts\": 16", "\"num_experts\": 0", "num_experts = 0, want"},
      {"\"full_attn_layers\"", "\"full_layers\"", "layer 3 (counted from 1) is named 0 times"},
      {"\"linear_attn_config\"", "\"linear\"", "linear_attn_config is missing"},
      {"\"mla_use_nope\": true", "\"mla_use_nope\": false", "mla_use_nope", StatusCode::kUnsupported},
      {"\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"", "hidden_act = \"gelu\"", StatusCode::kUnsupported},
      {"\"q_lora_rank\": null", "\"q_lora_rank\": 8", "q_lora_rank", StatusCode::kUnsupported},
      {"\"moe_layer_freq\": 1", "\"moe_layer_freq\": 2", "moe_layer_freq = 2", StatusCode::kUnsupported},
      {"\"num_key_value_heads\": 3", "\"num_key_value_heads\": 1", "num_key_value_heads = 1", StatusCode::kUnsupported},
      {"\"use_cache\": true", "\"quantization_config\": {\"quant_method\": \"awq\"}", "quantization_config",
       StatusCode::kUnsupported},
      {"\"use_cache\": true", "\"layer_types\": [\"linear_attention\"]", "layer_types has 1 entries, want 4"},
  };
  for (const Edit& edit : edits) {
    Checkpoint checkpoint = Checkpoint::moe_tiny();
    checkpoint.edit_config(edit.from, edit.to);
    const Status status = read_kimi_linear_config(parse(checkpoint.config)).status();
    EXPECT_EQ(status.code(), edit.code) << edit.to << ": " << status.message();
    EXPECT_NE(status.message().find(edit.message), std::string::npos) << edit.to << ": " << status.message();
  }
}

TEST(KimiLinearConfigTest, LayerTypesWin) {
  Checkpoint checkpoint = Checkpoint::moe_tiny();
  checkpoint.edit_config("\"use_cache\": true",
                         R"("layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention"],
                            "mlp_layer_types": ["dense", "dense", "dense", "sparse"])");
  const auto c = read_kimi_linear_config(parse(checkpoint.config));
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_EQ(c->is_kda, (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(c->is_dense, (std::vector<bool>{true, true, true, false}));
}

}  // namespace
}  // namespace vestige
