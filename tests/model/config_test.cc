#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint.h"
#include "model/arch/deepseek_v2.h"
#include "model/arch/kimi_linear.h"
#include "model/arch/llama.h"

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
      {"\"use_cache\": true", "\"attention_bias\": true", "attention_bias = true", StatusCode::kUnsupported},
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

TEST(KimiLinearConfigTest, PositionsOnlyWithoutNope) {
  Checkpoint checkpoint = Checkpoint::moe_tiny();
  EXPECT_TRUE(read_kimi_linear_config(parse(checkpoint.config))->mla.rotation.frequencies.empty());
  checkpoint.edit_config("\"mla_use_nope\": true", "\"mla_use_nope\": false");
  const auto c = read_kimi_linear_config(parse(checkpoint.config));
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_THAT(c->mla.rotation.frequencies, testing::ElementsAre(1.0f, 0.1f, 0.01f, 0.001f)) << "theta = 10000, 8 wide";
  EXPECT_TRUE(c->mla.rotation.interleaved);
  checkpoint.edit_config("\"qk_rope_head_dim\": 8", "\"qk_rope_head_dim\": 7");
  EXPECT_EQ(read_kimi_linear_config(parse(checkpoint.config)).status().message(),
            "config.json: qk_rope_head_dim = 7, want an even number");
}

TEST(RotationTest, YarnIsThatOfTransformers) {
  // Frequencies, stretch and score factor of transformers 5.24's DeepseekV2RotaryEmbedding for the same keys.
  struct Case {
    const char* config;
    int64_t d_branch;
    std::vector<float> frequencies;
    float scale, score_scale;
  };
  const Case cases[] = {
      {R"({"rope_theta": 100, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
           "beta_fast": 8, "beta_slow": 1, "mscale": 0.9, "mscale_all_dim": 0.6}})",
       12,
       {1.0f, 0.377129108f, 0.134652153f, 0.043750003f, 0.011603971f, 0.00538608711f},
       1.03839521f,
       1.17327385f},
      {R"({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "truncate": false, "rope_theta": 100}})",
       12,
       {1.0f, 0.411327928f, 0.155137122f, 0.0553986356f, 0.0180042572f, 0.00538608711f},
       1.13862944f,
       1.0f},
      {R"({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.5, "mscale": 2.0,
           "rope_theta": 100}})",
       12,
       {1.0f, 0.394535065f, 0.150810406f, 0.0549999997f, 0.0185663532f, 0.00538608711f},
       1.5f,
       1.0f},
      {R"({"rope_parameters": {"rope_type": "default", "rope_theta": 10000}, "rope_theta": 7})",
       4,
       {1.0f, 0.01f},
       1.0f,
       1.0f},
  };
  for (const Case& one : cases) {
    const auto got = read_rotation(parse(one.config), one.d_branch, 256);
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_THAT(got->frequencies, testing::Pointwise(testing::FloatNear(1e-6f), one.frequencies)) << one.config;
    EXPECT_NEAR(got->scale, one.scale, 1e-6f) << one.config;
    EXPECT_NEAR(got->score_scale, one.score_scale, 1e-6f) << one.config;
  }
  // DeepSeek-V2-Lite as published: pairs 0, 10, 17 and 31 of 32.
  const auto lite = read_rotation(parse(R"({"rope_theta": 10000, "rope_scaling": {"beta_fast": 32, "beta_slow": 1,
      "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096,
      "type": "yarn"}})"),
                                  64, 163840);
  ASSERT_TRUE(lite.ok()) << lite.status().message();
  const std::pair<size_t, float> pairs[] = {
      {0, 1.0f}, {10, 0.0562341288f}, {17, 0.00356199732f}, {31, 3.33380353e-06f}};
  for (const auto& [i, want] : pairs) EXPECT_NEAR(lite->frequencies[i], want, 1e-6f * want) << i;
  EXPECT_FLOAT_EQ(lite->scale, 1.0f);
  EXPECT_FLOAT_EQ(lite->score_scale, 1.58962617f);
}

TEST(DeepseekV2ConfigTest, ReadsEveryKey) {
  const auto c =
      read_deepseek_v2_config(parse(read_text(VESTIGE_SOURCE_DIR "/tests/parity/deepseek_tiny/config.json")));
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_EQ(c->is_kda, (std::vector<bool>{false, false}));
  EXPECT_EQ(c->is_dense, (std::vector<bool>{true, false}));
  EXPECT_EQ(c->mla.d_q_latent, 24);
  EXPECT_EQ(c->mla.d_row(), 52);
  EXPECT_EQ(c->mla.d_q(), 28);
  EXPECT_EQ(c->moe.top_k, 3);
  EXPECT_EQ(c->moe.activation, RouterActivation::kSoftmax);
  EXPECT_FALSE(c->moe.renormalize);
  EXPECT_EQ(c->max_tokens, 256);
}

TEST(DeepseekV2ConfigTest, RefusesWhatItCannotCompute) {
  const Edit edits[] = {
      {"\"attention_bias\": false", "\"attention_bias\": true", "attention_bias = true", StatusCode::kUnsupported},
      {"\"pad_token_id\": 2", "\"mlp_bias\": true", "mlp_bias = true", StatusCode::kUnsupported},
      {"\"pad_token_id\": 2", "\"rope_interleave\": false", "rope_interleave = false", StatusCode::kUnsupported},
      {"\"pad_token_id\": 2", "\"partial_rotary_factor\": 0.5", "partial_rotary_factor", StatusCode::kUnsupported},
      {"\"type\": \"yarn\"", "\"type\": \"linear\"", "rope_scaling: rope_type = \"linear\"", StatusCode::kUnsupported},
      {"\"factor\": 4.0", "\"factor\": 0.5", "factor = 0.5, want a number in [1, 1e+06]"},
      {"\"rope_theta\": 100.0", "\"rope_theta\": 1.0", "rope_theta = 1.0, want"},
      {"\"qk_rope_head_dim\": 12", "\"qk_rope_head_dim\": 11", "qk_rope_head_dim = 11, want an even number"},
      {"\"q_lora_rank\": 24", "\"q_lora_rank\": 0", "q_lora_rank = 0, want"},
      {"\"greedy\"", "\"group_limited_greedy\"", "topk_method = \"group_limited_greedy\"", StatusCode::kUnsupported},
      {"\"softmax\"", "\"sigmoid\"", "scoring_func = \"sigmoid\"", StatusCode::kUnsupported},
      {"\"norm_topk_prob\": false", "\"norm_topk_prob\": true", "norm_topk_prob = true", StatusCode::kUnsupported},
      {"\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 9", "num_experts_per_tok = 9"},
      {"\"num_key_value_heads\": 4", "\"num_key_value_heads\": 2", "num_key_value_heads = 2", StatusCode::kUnsupported},
  };
  const std::string whole = read_text(VESTIGE_SOURCE_DIR "/tests/parity/deepseek_tiny/config.json");
  for (const Edit& edit : edits) {
    std::string text = whole;
    ASSERT_NE(text.find(edit.from), std::string::npos) << edit.from;
    text.replace(text.find(edit.from), std::strlen(edit.from), edit.to);
    const Status status = read_deepseek_v2_config(parse(text)).status();
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

Result<DecoderConfig> read_llama(const std::string& text, LlamaKind kind) {
  return read_llama_config(parse(text), kind);
}

std::string llama_text(const char* fixture) {
  return read_text(std::string(VESTIGE_SOURCE_DIR "/tests/parity/") + fixture + "/config.json");
}

TEST(LlamaConfigTest, ReadsEveryKey) {
  const auto llama = read_llama(llama_text("llama_tiny"), LlamaKind::kLlama);
  ASSERT_TRUE(llama.ok()) << llama.status().message();
  EXPECT_EQ(llama->arch, "llama");
  EXPECT_EQ(llama->gqa.n_heads, 6);
  EXPECT_EQ(llama->gqa.h_q(), 3);
  EXPECT_EQ(llama->gqa.d_head, 12);
  EXPECT_FALSE(llama->gqa.qkv_bias || llama->gqa.o_bias || llama->gqa.qk_norm);
  EXPECT_TRUE(llama->tied_head);
  EXPECT_EQ(llama->max_tokens, 4096);
  const auto mistral = read_llama(llama_text("mistral_tiny"), LlamaKind::kMistral);
  ASSERT_TRUE(mistral.ok()) << mistral.status().message();
  EXPECT_EQ(mistral->gqa.d_head, 8) << "hidden_size / num_attention_heads";
  const auto qwen2 = read_llama(llama_text("qwen2_tiny"), LlamaKind::kQwen2);
  ASSERT_TRUE(qwen2.ok()) << qwen2.status().message();
  EXPECT_TRUE(qwen2->gqa.qkv_bias && !qwen2->gqa.o_bias);
  const auto qwen3 = read_llama(llama_text("qwen3_tiny"), LlamaKind::kQwen3);
  ASSERT_TRUE(qwen3.ok()) << qwen3.status().message();
  EXPECT_TRUE(qwen3->gqa.qkv_bias && qwen3->gqa.o_bias && qwen3->gqa.qk_norm);
}

// The least that transformers' own classes would take, and what they make of it.
TEST(LlamaConfigTest, FillsInWhatIsAbsent) {
  const std::string least = R"({"vocab_size": 96, "hidden_size": 256, "intermediate_size": 48, "num_hidden_layers": 1,
                                "num_attention_heads": 32)";
  const auto llama = read_llama(least + "}", LlamaKind::kLlama);
  ASSERT_TRUE(llama.ok()) << llama.status().message();
  EXPECT_EQ(llama->gqa.n_kv, 32);
  EXPECT_EQ(llama->gqa.d_head, 8);
  EXPECT_EQ(llama->max_tokens, 2048);
  EXPECT_FLOAT_EQ(llama->eps, 1e-6f);
  EXPECT_FALSE(llama->gqa.rotation.interleaved);
  EXPECT_FLOAT_EQ(llama->gqa.rotation.frequencies[1], 0.1f) << "theta = 10000";
  const auto mistral = read_llama(least + ", \"sliding_window\": null}", LlamaKind::kMistral);
  ASSERT_TRUE(mistral.ok()) << mistral.status().message();
  EXPECT_EQ(mistral->gqa.n_kv, 8);
  const auto null_heads =
      read_llama(least + R"(, "sliding_window": null, "num_key_value_heads": null})", LlamaKind::kMistral);
  ASSERT_TRUE(null_heads.ok()) << null_heads.status().message();
  EXPECT_EQ(null_heads->gqa.n_kv, 32);
  EXPECT_EQ(read_llama(least + "}", LlamaKind::kQwen3)->gqa.d_head, 128);
  EXPECT_EQ(read_llama(least + "}", LlamaKind::kMistral).status().message(),
            "config.json: sliding_window = 4096 below max_position_embeddings = 131072, want null");
  EXPECT_TRUE(
      read_llama(least + ", \"sliding_window\": 4096, \"max_position_embeddings\": 4096}", LlamaKind::kMistral).ok());
}

TEST(LlamaConfigTest, RefusesWhatItCannotCompute) {
  constexpr StatusCode kUnsupported = StatusCode::kUnsupported;
  const Edit edits[] = {
      {"\"num_attention_heads\": 6,", "", "num_attention_heads is missing"},
      {"\"num_attention_heads\": 6", "\"num_attention_heads\": 0", "num_attention_heads = 0, want"},
      {"\"num_attention_heads\": 6", "\"num_attention_heads\": 99999999999", "num_attention_heads = 99999999999"},
      {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 0", "num_key_value_heads = 0, want"},
      {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 12", "num_key_value_heads = 12, want"},
      {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4", "num_key_value_heads = 4, want a divisor"},
      {"\"head_dim\": 12", "\"head_dim\": 0", "head_dim = 0, want"},
      {"\"head_dim\": 12", "\"head_dim\": 11", "head_dim = 11, want an even number"},
      {"\"head_dim\": 12", "\"head_dim\": 2048", "head_dim = 2048, want an integer in [1, 1024]"},
      {"\"hidden_size\": 36", "\"hidden_size\": 65536", "want a multiple"},
      {"\"hidden_size\": 36", "\"hidden_size\": 0", "hidden_size = 0, want"},
      {"\"rope_theta\": 50.0", "\"rope_theta\": 0", "rope_theta = 0, want"},
      {"\"llama3\"", "\"longrope\"", "rope_type = \"longrope\"", kUnsupported},
      {"\"llama3\"", "\"yarn\"", "rope_type = \"yarn\"", kUnsupported},
      {"\"factor\": 4.0", "\"factor\": 0", "factor = 0, want"},
      {"\"low_freq_factor\": 1.0,", "", "low_freq_factor = (missing)"},
      {"\"high_freq_factor\": 4.0", "\"high_freq_factor\": 1.0", "want more than low_freq_factor = 1"},
      {"\"original_max_position_embeddings\": 32", "\"original_max_position_embeddings\": -1", "= -1, want"},
      {"\"mlp_bias\": false", "\"mlp_bias\": true", "mlp_bias = true", kUnsupported},
      {"\"mlp_bias\": false", "\"partial_rotary_factor\": 0.5", "partial_rotary_factor", kUnsupported},
      {"\"mlp_bias\": false", "\"layer_types\": [\"sliding_attention\"]", "sliding_attention", kUnsupported},
      {"\"silu\"", "\"gelu\"", "hidden_act = \"gelu\"", kUnsupported},
      {"\"attention_bias\": false", "\"attention_bias\": 1", "attention_bias = 1, want true or false"},
  };
  for (const Edit& edit : edits) {
    std::string text = llama_text("llama_tiny");
    ASSERT_NE(text.find(edit.from), std::string::npos) << edit.from;
    text.replace(text.find(edit.from), std::strlen(edit.from), edit.to);
    if (edit.message == std::string("want a multiple")) {  // head_dim would hide it
      text.replace(text.find("\"head_dim\": 12,"), std::strlen("\"head_dim\": 12,"), "");
    }
    const Status status = read_llama(text, LlamaKind::kLlama).status();
    EXPECT_EQ(status.code(), edit.code) << edit.to << ": " << status.message();
    EXPECT_NE(status.message().find(edit.message), std::string::npos) << edit.to << ": " << status.message();
  }
  std::string windowed = llama_text("qwen2_tiny");
  windowed.replace(windowed.find("\"use_sliding_window\": false"), 27, "\"use_sliding_window\": true");
  EXPECT_EQ(read_llama(windowed, LlamaKind::kQwen2).status().message(), "config.json: use_sliding_window = true");
}

// Frequencies of transformers 5.24's LlamaRotaryEmbedding for Llama-3.1-8B's config: six of its 64 pairs.
TEST(RotationTest, Llama3IsThatOfTransformers) {
  const auto got = read_gqa_rotation(parse(R"({"rope_theta": 500000.0, "rope_scaling": {"factor": 8.0,
      "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
      "rope_type": "llama3"}})"),
                                     128, 131072);
  ASSERT_TRUE(got.ok()) << got.status().message();
  const std::pair<size_t, float> pairs[] = {{0, 1.0f},
                                            {20, 0.0165604409f},
                                            {30, 0.00137189368f},
                                            {31, 0.00085675146f},
                                            {35, 9.55621217e-05f},
                                            {63, 3.06892588e-07f}};
  for (const auto& [i, want] : pairs) EXPECT_NEAR(got->frequencies[i], want, 1e-6f * want) << i;
  EXPECT_FLOAT_EQ(got->scale, 1.0f);
}

}  // namespace
}  // namespace vestige
