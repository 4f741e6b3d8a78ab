#include "vestige/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checkpoint.h"
#include "sequence_run.h"

namespace vestige {
namespace {

class ModelTest : public testing::Test {
 protected:
  ModelTest() : checkpoint_(Checkpoint::moe_tiny()), stream_(std::move(Stream::create({.backend = "ref"})).value()) {
    for (int32_t i = 0; i < 75; ++i) tokens_.push_back((i * 37 + 11) % 256);
  }

  Result<std::unique_ptr<Model>> load() {
    checkpoint_.write(folder_.path());
    return Model::load(folder_.path(), {.row_dtype = DType::kF32});
  }
  std::unique_ptr<Model> must_load() {
    auto model = load();
    EXPECT_TRUE(model.ok()) << model.status().message();
    return std::move(model).value();
  }
  void expect_load_fails(StatusCode code, const std::string& message) {
    const Status status = load().status();
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  }
  std::span<const int32_t> tokens(size_t begin, size_t count) const { return std::span(tokens_).subspan(begin, count); }
  std::vector<float> logits_after(const Model& model) {
    SequenceRun run(model, *stream_);
    run.feed(tokens(0, 64), true);
    run.feed(tokens(64, 3), false);
    return run.logits(run.last.data());
  }

  TestFolder folder_;
  Checkpoint checkpoint_;
  std::unique_ptr<Stream> stream_;
  std::vector<int32_t> tokens_;
};

TEST_F(ModelTest, InfoDescribesTheFiles) {
  const auto model = must_load();
  const ModelInfo& info = model->info();
  int64_t n_params = 0, n_bytes = 0;
  for (const auto& [name, t] : checkpoint_.tensors) {
    n_params += static_cast<int64_t>(t.bytes.size() / dtype_bytes(t.dtype));
    n_bytes += static_cast<int64_t>(t.bytes.size());
  }
  EXPECT_EQ(info.arch, "kimi_linear");
  EXPECT_EQ(info.n_params, n_params);
  // Convolutions are widened to F32: 3 layers of 3 x 32 channels of 4 taps, 2 bytes more each.
  EXPECT_EQ(info.weight_bytes, n_bytes + 3 * 3 * 32 * 4 * 2);
  const int64_t n_idle_experts = 3 * 13, expert_bytes = 3 * 16 * 32 * 2, embedding_rows = 255;
  EXPECT_EQ(info.active_weight_bytes, info.weight_bytes - n_idle_experts * expert_bytes - embedding_rows * 32 * 2);
  ASSERT_EQ(info.cache_layers.size(), 1u);
  EXPECT_EQ(info.cache_layers[0].layer, 2);
  EXPECT_EQ(info.cache_layers[0].layout, (RowLayout{.d_content = 40, .d_branch = 8, .dtype = DType::kF32}));
  EXPECT_EQ(info.cache_layers[0].h_q, 3);
  EXPECT_FLOAT_EQ(info.cache_layers[0].scale, 1.0f / std::sqrt(24.0f));
  auto state = model->create_state();
  EXPECT_EQ((*state)->size_bytes(), 3 * 4 * (2 * 16 * 16 + 3 * 3 * 32));
}

TEST_F(ModelTest, RefusesFoldersThatAreNotWhole) {
  EXPECT_EQ(Model::load(folder_.path() + "/nowhere", {}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Model::load(folder_.path(), {.row_dtype = DType::kF16}).status().code(), StatusCode::kInvalidArgument);
  const Checkpoint whole = checkpoint_;
  checkpoint_.tensors.erase("model.layers.2.block_sparse_moe.experts.7.w2.weight");
  expect_load_fails(StatusCode::kNotFound, "experts.7.w2.weight");
  checkpoint_ = whole;
  checkpoint_.tensors.erase("lm_head.weight");
  expect_load_fails(StatusCode::kNotFound, "lm_head.weight");
  checkpoint_ = whole;
  checkpoint_.tensors["model.layers.3.self_attn.q_proj.weight"].shape = {16, 64};
  expect_load_fails(StatusCode::kDataLoss, "has shape [16, 64], want [32, 32]");
  checkpoint_ = whole;
  checkpoint_.edit_config("\"model_type\": \"kimi_linear\"", "\"model_type\": \"gpt9\"");
  checkpoint_.edit_config("KimiLinearForCausalLM", "Gpt9ForCausalLM");
  expect_load_fails(StatusCode::kUnsupported, "\"gpt9\", want one of: deepseek_v2, kimi_linear");
  checkpoint_ = whole;
  checkpoint_.edit_config("\"model_type\": \"kimi_linear\"", "\"model_type\": \"\"");
  EXPECT_TRUE(load().ok()) << "the class name is enough";
}

TEST_F(ModelTest, TiedHeadIsTheEmbedding) {
  checkpoint_.tensors["lm_head.weight"] = checkpoint_.tensors["model.embed_tokens.weight"];
  const auto apart = logits_after(*must_load());
  checkpoint_.tensors.erase("lm_head.weight");
  checkpoint_.edit_config("\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
  EXPECT_EQ(logits_after(*must_load()), apart);
}

TEST_F(ModelTest, RefusesForwardArguments) {
  const auto model = must_load();
  SequenceRun run(*model, *stream_);
  ForwardParams good;
  good.tokens = tokens(0, 2);
  good.state = run.state.get();
  good.caches = run.cache_pointers;
  const int32_t outside[] = {256}, negative[] = {-1};
  LayerCache* const none[] = {nullptr};
  float number = 0;
  const std::pair<const char*, std::function<void(ForwardParams&)>> edits[] = {
      {"no tokens", [](auto& p) { p.tokens = {}; }},
      {"token id = 256", [&](auto& p) { p.tokens = outside; }},
      {"token id = -1", [&](auto& p) { p.tokens = negative; }},
      {"position = -1", [](auto& p) { p.position = -1; }},
      {"at most 4096", [](auto& p) { p.position = 4095; }},
      {"want position = 7", [](auto& p) { p.position = 7; }},
      {"state", [](auto& p) { p.state = nullptr; }},
      {"0 caches, want 1", [](auto& p) { p.caches = {}; }},
      {"layout of layer 2", [&](auto& p) { p.caches = none; }},
      {"last_hidden", [&](auto& p) { p.last_hidden = TensorView(&number, DType::kF32, {1}); }},
  };
  for (const auto& [message, edit] : edits) {
    ForwardParams p = good;
    edit(p);
    const Status status = model->forward(p, *stream_);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << message;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  }
  EXPECT_EQ(run.caches[0]->n_rows(), 0) << "a refused call must not touch the sequence";
  EXPECT_TRUE(model->forward(good, *stream_).ok());
}

TEST_F(ModelTest, SavedStateContinuesWithTheSameBits) {
  const auto model = must_load();
  SequenceRun a(*model, *stream_), b(*model, *stream_);
  a.feed(tokens(0, 64), true);
  b.feed(tokens(0, 64), true);
  MapStore saved;
  ASSERT_TRUE(a.state->save("x.", saved).ok());
  EXPECT_EQ(saved.values.size(), 6u);
  EXPECT_TRUE(saved.values.contains("x.kda.3.state") && saved.values.contains("x.kda.0.conv"));
  b.state = std::move(model->create_state()).value();
  ASSERT_TRUE(b.state->load("x.", saved).ok());
  a.feed(tokens(64, 5), false);
  b.feed(tokens(64, 5), false);
  EXPECT_EQ(a.last, b.last);
  EXPECT_FALSE(b.state->load("y.", saved).ok());
}

TEST_F(ModelTest, AbsorbedQueriesScoreRowsAsKeysDo) {
  const auto model = must_load();
  SequenceRun run(*model, *stream_);
  std::vector<float> q;
  ForwardParams p;
  p.tokens = tokens(0, 5);
  p.state = run.state.get();
  p.caches = run.cache_pointers;
  p.prefill = true;
  p.query_tap = [&](size_t index, const ConstTensorView& view) {
    EXPECT_EQ(index, 0u);
    EXPECT_EQ(describe(view), "[5, 3, 24] F32");
    q.assign(view.as<float>(), view.as<float>() + view.n_elements());
  };
  ASSERT_TRUE(model->forward(p, *stream_).ok());
  std::vector<float> absorbed(5 * 3 * 48);
  ASSERT_TRUE(model
                  ->absorb(0, ConstTensorView(q.data(), DType::kF32, {5, 3, 24}),
                           TensorView(absorbed.data(), DType::kF32, {5, 3, 48}), *stream_)
                  .ok());
  const std::vector<float> kv_b = checkpoint_.tensors["model.layers.2.self_attn.kv_b_proj.weight"].floats();
  for (size_t i = 0; i < 15; ++i) {
    const float* w_uk = kv_b.data() + i % 3 * 40 * 40;  // 16 key rows, then 24 value rows, of 40
    for (size_t j = 0; j < 40; ++j) {
      double want = 0;
      for (size_t k = 0; k < 16; ++k) want += static_cast<double>(q[i * 24 + k] * w_uk[k * 40 + j]);
      EXPECT_NEAR(absorbed[i * 48 + j], want, 1e-4);
    }
    EXPECT_TRUE(std::equal(q.begin() + static_cast<ptrdiff_t>(i * 24 + 16),
                           q.begin() + static_cast<ptrdiff_t>(i * 24 + 24),
                           absorbed.begin() + static_cast<ptrdiff_t>(i * 48 + 40)));
  }
  EXPECT_FALSE(model->absorb(1, {}, {}, *stream_).ok());
}

/// What a prefill puts in the first cache, and its queries.
struct Cached {
  std::vector<float> content, branch, queries;
};
Cached cached_by(const Model& model, Stream& stream, std::span<const int32_t> tokens) {
  SequenceRun run(model, stream);
  Cached out;
  ForwardParams p;
  p.tokens = tokens;
  p.state = run.state.get();
  p.caches = run.cache_pointers;
  p.prefill = true;
  p.query_tap = [&](size_t, const ConstTensorView& q) {
    out.queries.assign(q.as<float>(), q.as<float>() + q.n_elements());
  };
  EXPECT_TRUE(model.forward(p, stream).ok());
  const RowPages pages = run.caches[0]->pages();
  for (int64_t u = 0; u < pages.n_rows; ++u) {
    const size_t page = static_cast<size_t>(u / pages.page_rows);
    const int64_t row = u % pages.page_rows;
    const float* content = static_cast<const float*>(pages.content[page]) + row * pages.content_stride;
    const float* branch = static_cast<const float*>(pages.branch[page]) + row * pages.branch_stride;
    out.content.insert(out.content.end(), content, content + pages.layout.d_content);
    out.branch.insert(out.branch.end(), branch, branch + pages.layout.d_branch);
  }
  return out;
}

TEST_F(ModelTest, CachedRowsAndQueriesHoldTheTurnedBranch) {
  // The first cached layer sees the same input with and without positions, so that only the turn differs.
  constexpr size_t kNope = 16, kBranch = 12, kHeads = 3, kTokens = 70;
  checkpoint_ = Checkpoint::fixture("kimi_rope_tiny");
  for (int32_t& id : tokens_) id %= 96;
  const Cached turned = cached_by(*must_load(), *stream_, tokens(0, kTokens));
  checkpoint_.edit_config("\"mla_use_nope\": false", "\"mla_use_nope\": true");
  const Cached plain = cached_by(*must_load(), *stream_, tokens(0, kTokens));
  EXPECT_EQ(turned.content, plain.content);
  const auto expect_turned = [&](const float* got, const float* from, size_t position) {
    for (size_t j = 0; j < kBranch / 2; ++j) {
      const double angle = static_cast<double>(position) * std::pow(50.0, -2.0 * static_cast<double>(j) / kBranch);
      const double a = static_cast<double>(from[j]), b = static_cast<double>(from[j + kBranch / 2]);
      EXPECT_NEAR(got[j], a * std::cos(angle) - b * std::sin(angle), 1e-4) << position;
      EXPECT_NEAR(got[j + kBranch / 2], a * std::sin(angle) + b * std::cos(angle), 1e-4) << position;
    }
  };
  for (size_t i = 0; i < kTokens; ++i) {
    expect_turned(turned.branch.data() + i * kBranch, plain.branch.data() + i * kBranch, i);
    for (size_t h = 0; h < kHeads; ++h) {
      const size_t at = (i * kHeads + h) * (kNope + kBranch);
      EXPECT_TRUE(std::equal(turned.queries.begin() + static_cast<ptrdiff_t>(at),
                             turned.queries.begin() + static_cast<ptrdiff_t>(at + kNope),
                             plain.queries.begin() + static_cast<ptrdiff_t>(at)));
      expect_turned(turned.queries.data() + at + kNope, plain.queries.data() + at + kNope, i);
    }
  }
}

TEST_F(ModelTest, DeepseekNeedsNoState) {
  checkpoint_ = Checkpoint::fixture("deepseek_tiny");
  const auto model = must_load();
  EXPECT_EQ(model->info().arch, "deepseek_v2");
  ASSERT_EQ(model->info().cache_layers.size(), 2u);
  EXPECT_EQ(model->info().cache_layers[1].layout, (RowLayout{.d_content = 40, .d_branch = 12, .dtype = DType::kF32}));
  EXPECT_FLOAT_EQ(model->info().cache_layers[0].scale, 1.17327385f / std::sqrt(28.0f)) << "YaRN's mscale_all_dim";
  const int64_t n_idle_experts = 5, expert_bytes = 3 * 16 * 32 * 2, embedding_rows = 95;
  EXPECT_EQ(model->info().active_weight_bytes,
            model->info().weight_bytes - n_idle_experts * expert_bytes - embedding_rows * 32 * 2);
  auto state = std::move(model->create_state()).value();
  EXPECT_EQ(state->size_bytes(), 0);
  MapStore saved;
  ASSERT_TRUE(state->save("x.", saved).ok());
  EXPECT_TRUE(saved.values.empty());
  EXPECT_TRUE(state->load("x.", saved).ok());
  checkpoint_.tensors.erase("model.layers.1.self_attn.q_a_layernorm.weight");
  expect_load_fails(StatusCode::kNotFound, "q_a_layernorm.weight");
}

TEST_F(ModelTest, ValueGramIsTheSumOverHeads) {
  const std::vector<float> kv_b = checkpoint_.tensors["model.layers.2.self_attn.kv_b_proj.weight"].floats();
  const auto model = must_load();
  std::vector<float> gram(40 * 40);
  for (const char* backend : {"ref", "cpu"}) {
    auto stream = Stream::create({.backend = backend, .n_threads = 2});
    ASSERT_TRUE(stream.ok());
    std::fill(gram.begin(), gram.end(), NAN);
    const Status status = model->value_gram(0, TensorView(gram.data(), DType::kF32, {40, 40}), **stream);
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t i = 0; i < 40; ++i) {
      for (size_t j = 0; j < 40; ++j) {
        double want = 0;
        for (size_t h = 0; h < 3; ++h) {
          for (size_t v = 16; v < 40; ++v) {  // 16 key rows, then 24 value rows, of 40
            const float* row = kv_b.data() + (h * 40 + v) * 40;
            want += static_cast<double>(row[i]) * static_cast<double>(row[j]);
          }
        }
        EXPECT_NEAR(gram[i * 40 + j], want, 1e-4) << backend;
        EXPECT_EQ(gram[i * 40 + j], gram[j * 40 + i]);
      }
    }
  }
  EXPECT_FALSE(model->value_gram(1, TensorView(gram.data(), DType::kF32, {40, 40}), *stream_).ok());
  EXPECT_FALSE(model->value_gram(0, TensorView(gram.data(), DType::kF32, {40, 8}), *stream_).ok());
}

/// Nearest e4m3 code of x.
uint8_t to_f8(float x) {
  uint8_t best = 0;
  float distance = INFINITY;
  for (int code = 0; code < 256; ++code) {
    const float d = std::abs(f8e4m3_to_f32(static_cast<uint8_t>(code)) - x);
    if (d < distance) distance = d, best = static_cast<uint8_t>(code);
  }
  return best;
}

TEST_F(ModelTest, Float8WeightsGiveWhatWidenedOnesGive) {
  Checkpoint widened = checkpoint_;
  for (const auto& [name, t] : Checkpoint::moe_tiny().tensors) {
    if (!name.ends_with(".weight") || t.shape.size() != 2 || name.find("gate.weight") != std::string::npos) continue;
    const int64_t n_blocks = (t.shape[0] + 127) / 128;
    std::vector<float> scale, values = t.floats();
    for (int64_t i = 0; i < n_blocks; ++i) scale.push_back(std::ldexp(1.0f, -static_cast<int>(4 + i)));
    StoredTensor codes{DType::kF8E4M3, t.shape, {}};
    for (size_t i = 0; i < values.size(); ++i) {
      const float block_scale = scale[i / static_cast<size_t>(128 * t.shape[1])];
      const uint8_t code = to_f8(values[i] / block_scale);
      codes.bytes.push_back(static_cast<std::byte>(code));
      values[i] = f8e4m3_to_f32(code) * block_scale;
    }
    checkpoint_.tensors[name] = codes;
    checkpoint_.tensors[name + "_scale_inv"] = StoredTensor::from_floats({n_blocks, 1}, scale);
    widened.tensors[name] = StoredTensor::from_floats(t.shape, values);
  }
  checkpoint_.edit_config("\"use_cache\": true",
                          R"("quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]})");
  const auto from_f8 = logits_after(*must_load());
  std::swap(checkpoint_, widened);
  const auto from_f32 = logits_after(*must_load());
  for (size_t i = 0; i < from_f32.size(); ++i) EXPECT_NEAR(from_f8[i], from_f32[i], 1e-4) << i;
}

}  // namespace
}  // namespace vestige
