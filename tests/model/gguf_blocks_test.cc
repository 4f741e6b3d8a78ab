// A GGUF model whose matrices are in blocks of codes against the same model in F32, written by decode_blocks (which
// tests/base/gguf_test.cc holds against the gguf package): every row and logit has the same bits, and the matrices stay
// in the file.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/block_codes.h"
#include "tests/backend/stored_blocks.h"
#include "tests/model/sequence_run.h"

namespace vestige {
namespace {

constexpr uint32_t kWidth = 256, kHeads = 4, kKv = 2, kFeedForward = 512, kVocab = 65536, kLayers = 2;

/// Writes a file of architecture llama. Each matrix in blocks of another kind, or all of it decoded.
class Writer {
 public:
  explicit Writer(bool decoded) : decoded_(decoded) {
    add("token_embd.weight", DType::kQ4_0, kVocab, kWidth);
    add_ones("output_norm.weight");
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      const std::string prefix = "blk." + std::to_string(layer) + ".";
      add_ones(prefix + "attn_norm.weight");
      add_ones(prefix + "ffn_norm.weight");
      add(prefix + "attn_q.weight", DType::kQ4K, kWidth, kWidth);
      add(prefix + "attn_k.weight", DType::kQ4_1, kWidth / kHeads * kKv, kWidth);
      add(prefix + "attn_v.weight", DType::kQ6K, kWidth / kHeads * kKv, kWidth);
      add(prefix + "attn_output.weight", DType::kQ8_0, kWidth, kWidth);
      add(prefix + "ffn_gate.weight", DType::kQ4_1, kFeedForward, kWidth);
      add(prefix + "ffn_up.weight", DType::kQ4_0, kFeedForward, kWidth);
      add(prefix + "ffn_down.weight", DType::kQ6K, kWidth, kFeedForward);
    }
  }

  int64_t weight_bytes() const { return n_bytes_; }

  void write(const std::string& path) const {
    std::string values;
    uint64_t n_values = 0;
    const auto key = [&](const std::string& name, uint32_t type) {
      ++n_values;
      values += text(name) + raw(type);
    };
    key("general.architecture", 8);
    values += text("llama");
    const std::pair<const char*, uint32_t> sizes[] = {{"block_count", kLayers},
                                                      {"context_length", 512},
                                                      {"embedding_length", kWidth},
                                                      {"feed_forward_length", kFeedForward},
                                                      {"attention.head_count", kHeads},
                                                      {"attention.head_count_kv", kKv},
                                                      {"vocab_size", kVocab}};
    for (const auto& [name, value] : sizes) {
      key(std::string("llama.") + name, 4);
      values += raw(value);
    }
    key("llama.attention.layer_norm_rms_epsilon", 6);
    values += raw(1e-5f);
    std::string head = "GGUF" + raw(3u) + raw(n_tensors_) + raw(n_values) + values + tensors_;
    head.resize((head.size() + 31) / 32 * 32);
    std::ofstream(path, std::ios::binary) << head << data_;
  }

 private:
  template <class T>
  static std::string raw(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }
  static std::string text(const std::string& s) { return raw<uint64_t>(s.size()) + s; }

  void describe(const std::string& name, std::initializer_list<uint64_t> shape, uint32_t type) {
    ++n_tensors_;
    tensors_ += text(name) + raw(static_cast<uint32_t>(shape.size()));
    for (const uint64_t n : shape) tensors_ += raw(n);
    tensors_ += raw(type) + raw<uint64_t>(data_.size());
  }
  void append(const void* bytes, size_t n) {
    data_.append(static_cast<const char*>(bytes), n);
    n_bytes_ += static_cast<int64_t>(n);
    data_.resize((data_.size() + 31) / 32 * 32);
  }
  void add_ones(const std::string& name) {
    describe(name, {kWidth}, 0);
    const std::vector<float> ones(kWidth, 1.0f);
    append(ones.data(), kWidth * sizeof(float));
  }
  void add(const std::string& name, DType dtype, int64_t n, int64_t k) {
    const auto blocks = random_blocks(dtype, n * k, n_tensors_, 0.2f);
    uint32_t type = 0;
    while (!decoded_ && dtype_of_ggml(type) != dtype) ++type;
    describe(name, {static_cast<uint64_t>(k), static_cast<uint64_t>(n)}, type);
    if (!decoded_) return append(blocks.data(), blocks.size());
    std::vector<float> numbers(static_cast<size_t>(n * k));
    decode_blocks(dtype, blocks.data(), n * k, numbers.data());
    append(numbers.data(), numbers.size() * sizeof(float));
  }

  bool decoded_;
  std::string tensors_, data_;
  uint64_t n_tensors_ = 0;
  int64_t n_bytes_ = 0;
};

class GgufBlocks : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  std::unique_ptr<Model> load(const Writer& file) {
    file.write(path_);
    auto model = Model::load(path_, {});
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? std::move(model).value() : nullptr;
  }
  // Tests run side by side, each in a process of its own.
  const std::string path_ =
      testing::TempDir() + "/gguf_blocks_" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".gguf";
};

/// What a process holds of memory of its own, in bytes.
int64_t own_memory() {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;) {
    int64_t kilobytes = 0;
    if (word == "RssAnon:" && in >> kilobytes) return kilobytes * 1024;
  }
  return -1;
}

TEST_F(GgufBlocks, GiveTheBitsOfTheNumbersTheyStandFor) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 100; ++i) tokens.push_back(i * 641 % static_cast<int32_t>(kVocab));
  const auto stream = Stream::create({.backend = "cpu", .n_threads = 2, .pin_threads = false});
  ASSERT_TRUE(stream.ok());
  std::vector<std::vector<float>> hidden[2];
  std::vector<float> logits[2];
  for (const bool decoded : {false, true}) {
    const auto model = load(Writer(decoded));
    ASSERT_NE(model, nullptr);
    SequenceRun run(*model, **stream);
    run.feed(std::span(tokens).first(83), true);     // the products of many rows
    run.feed(std::span(tokens).subspan(83), false);  // of few
    hidden[decoded] = run.hidden;
    logits[decoded] = run.logits(run.last.data());
  }
  EXPECT_EQ(hidden[0], hidden[1]);
  EXPECT_EQ(logits[0], logits[1]);
  EXPECT_NE(logits[0].front(), logits[0].back());
}

TEST_F(GgufBlocks, StayInTheFile) {
  const Writer file(false);
  const int64_t before = own_memory();
  const auto model = load(file);
  const int64_t grown = own_memory() - before;
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->info().weight_bytes, file.weight_bytes());
  EXPECT_EQ(model->info().active_weight_bytes, file.weight_bytes()) << "the head is the embedding";
  EXPECT_LT(grown, 16 << 20) << "decoded, the embedding alone takes 64 MiB";
}

}  // namespace
}  // namespace vestige
