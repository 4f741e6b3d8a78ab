// What the Llama family reads from a checkpoint, and what it hands to caches. Numbers: tests/parity.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checkpoint.h"
#include "sequence_run.h"

namespace vestige {
namespace {

class LlamaTest : public testing::Test {
 protected:
  LlamaTest() : stream_(std::move(Stream::create({.backend = "ref"})).value()) {}

  Result<std::unique_ptr<Model>> load(const Checkpoint& checkpoint) {
    checkpoint.write(folder_.path());
    return Model::load(folder_.path(), {.row_dtype = DType::kF32});
  }
  std::unique_ptr<Model> must_load(const Checkpoint& checkpoint) {
    auto model = load(checkpoint);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return std::move(model).value();
  }
  void expect_load_fails(const Checkpoint& checkpoint, StatusCode code, const std::string& message) {
    const Status status = load(checkpoint).status();
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  }
  std::vector<float> logits_of(const Model& model) {
    const std::vector<int32_t> tokens = {5, 9, 33, 7, 70, 12};
    SequenceRun run(model, *stream_);
    run.feed(tokens, true);
    return run.logits(run.last.data());
  }

  TestFolder folder_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(LlamaTest, InfoDescribesTheFiles) {
  const Checkpoint checkpoint = Checkpoint::fixture("llama_tiny");
  const auto model = must_load(checkpoint);
  int64_t n_bytes = 0;
  for (const auto& [name, t] : checkpoint.tensors) n_bytes += static_cast<int64_t>(t.bytes.size());
  EXPECT_EQ(model->info().arch, "llama");
  EXPECT_EQ(model->info().weight_bytes, n_bytes);
  EXPECT_EQ(model->info().active_weight_bytes, n_bytes) << "the head is the embedding";
  EXPECT_EQ(model->info().cache_layers.size(), 4u);
}

TEST_F(LlamaTest, MissingAndMisshapenTensorsAreNamed) {
  const std::string layer = "model.layers.1.self_attn.";
  for (const char* name : {"k_proj.weight", "q_proj.bias", "o_proj.bias", "q_norm.weight"}) {
    Checkpoint checkpoint = Checkpoint::fixture("qwen3_tiny");
    ASSERT_EQ(checkpoint.tensors.erase(layer + name), 1u);
    expect_load_fails(checkpoint, StatusCode::kNotFound, layer + name);
  }
  Checkpoint checkpoint = Checkpoint::fixture("qwen2_tiny");
  checkpoint.tensors[layer + "v_proj.bias"] = StoredTensor::from_floats({32}, std::vector<float>(32));
  expect_load_fails(checkpoint, StatusCode::kDataLoss, "v_proj.bias\" has shape [32], want [16]");
  checkpoint = Checkpoint::fixture("llama_tiny");
  checkpoint.edit_config("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3");
  expect_load_fails(checkpoint, StatusCode::kDataLoss, "k_proj.weight\" has shape [24, 36], want [36, 36]");
}

TEST_F(LlamaTest, TypeOrClassNamesTheModel) {
  Checkpoint checkpoint = Checkpoint::fixture("qwen2_tiny");
  const std::vector<float> want = logits_of(*must_load(checkpoint));
  checkpoint.edit_config("\"model_type\": \"qwen2\"", "\"model_type\": \"mine\"");
  EXPECT_EQ(logits_of(*must_load(checkpoint)), want);
  checkpoint.edit_config("Qwen2ForCausalLM", "MineForCausalLM");
  expect_load_fails(checkpoint, StatusCode::kUnsupported, "llama, mistral, qwen2, qwen3");
}

// A bias as the hub stores it, in two bytes.
TEST_F(LlamaTest, BiasesMayBeOfAnyWidth) {
  Checkpoint wide = Checkpoint::fixture("qwen3_tiny"), narrow = wide;
  for (auto& [name, t] : wide.tensors) {
    if (!name.ends_with("bias")) continue;
    std::vector<float> rounded = t.floats();
    StoredTensor half{DType::kBF16, t.shape, std::vector<std::byte>(rounded.size() * 2)};
    for (size_t i = 0; i < rounded.size(); ++i) {
      const uint16_t bits = f32_to_bf16(rounded[i]);
      std::memcpy(half.bytes.data() + 2 * i, &bits, 2);
      rounded[i] = bf16_to_f32(bits);
    }
    t = StoredTensor::from_floats(t.shape, rounded);
    narrow.tensors[name] = half;
  }
  EXPECT_EQ(logits_of(*must_load(narrow)), logits_of(*must_load(wide)));
}

TEST_F(LlamaTest, QueriesMeetTheKeysOfTheirHead) {
  const auto model = must_load(Checkpoint::fixture("llama_tiny"));
  const std::vector<int32_t> tokens = {5, 9, 33, 7, 70};
  SequenceRun run(*model, *stream_);
  std::map<size_t, std::vector<float>> q;
  ForwardParams p;
  p.tokens = tokens;
  p.state = run.state.get();
  p.caches = run.cache_pointers;
  p.prefill = true;
  p.query_tap = [&](size_t index, const ConstTensorView& view) {
    EXPECT_EQ(describe(view), "[5, 3, 12] F32");
    EXPECT_TRUE(view.contiguous());
    q[index].assign(view.as<float>(), view.as<float>() + view.n_elements());
  };
  ASSERT_TRUE(model->forward(p, *stream_).ok());
  ASSERT_EQ(q.size(), 4u);
  EXPECT_NE(q[0], q[1]);

  std::vector<float> absorbed(5 * 3 * 24, 7.0f), gram(12 * 12, 7.0f);
  const ConstTensorView queries(q[1].data(), DType::kF32, {5, 3, 12});
  ASSERT_TRUE(model->absorb(1, queries, TensorView(absorbed.data(), DType::kF32, {5, 3, 24}), *stream_).ok());
  for (size_t i = 0; i < 15 * 24; ++i) {
    EXPECT_EQ(absorbed[i], i % 24 < 12 ? 0.0f : q[1][i / 24 * 12 + i % 24 - 12]) << i;
  }
  EXPECT_FALSE(model->absorb(1, queries, TensorView(absorbed.data(), DType::kF32, {5, 3, 23}), *stream_).ok());
  EXPECT_FALSE(model->absorb(1, {}, {}, *stream_).ok());
  EXPECT_FALSE(model->absorb(4, queries, TensorView(absorbed.data(), DType::kF32, {5, 3, 24}), *stream_).ok());

  ASSERT_TRUE(model->value_gram(3, TensorView(gram.data(), DType::kF32, {12, 12}), *stream_).ok());
  // Cache 3: layer 1, key-value head 1, whose three query heads read columns 36 .. 71 of o_proj [d_model, 72].
  const StoredTensor o = Checkpoint::fixture("llama_tiny").tensors.at("model.layers.1.self_attn.o_proj.weight");
  const std::vector<float> w = o.floats();
  ASSERT_EQ(o.shape[1], 72);
  for (size_t i = 0; i < 144; ++i) {
    double sum = 0;
    for (size_t row = 0; row < static_cast<size_t>(o.shape[0]); ++row) {
      for (size_t head = 3; head < 6; ++head) {
        sum += double(w[row * 72 + head * 12 + i / 12]) * double(w[row * 72 + head * 12 + i % 12]);
      }
    }
    EXPECT_NEAR(gram[i], sum, 1e-5 * std::abs(sum) + 1e-6);
  }
  EXPECT_FALSE(model->value_gram(3, TensorView(gram.data(), DType::kF32, {11, 12}), *stream_).ok());
}

}  // namespace
}  // namespace vestige
