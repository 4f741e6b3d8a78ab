// GGUF files whose metadata or tensors are not what they should be: refused by name, never half read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "vestige/model.h"

namespace vestige {
namespace {

using ::testing::HasSubstr;

class GgufModel : public testing::Test {
 protected:
  void SetUp() override {
    std::ifstream in(std::string(VESTIGE_SOURCE_DIR) + "/tests/parity/llama_tiny/model.gguf", std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    ASSERT_FALSE(bytes_.empty());
    path_ = testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".gguf";
  }
  void TearDown() override { std::filesystem::remove(path_); }

  /// Overwrites the value of a metadata key (its bytes, after key and type).
  template <class T>
  void set_value(const std::string& key, T value) {
    const size_t at = bytes_.find(key);
    ASSERT_NE(at, std::string::npos) << key;
    std::memcpy(bytes_.data() + at + key.size() + 4, &value, sizeof value);
  }
  /// Another name of the same length.
  void rename(const std::string& from, const std::string& to) {
    const size_t at = bytes_.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    ASSERT_EQ(from.size(), to.size());
    bytes_.replace(at, to.size(), to);
  }
  Status load() const {
    std::ofstream(path_, std::ios::binary) << bytes_;
    return Model::load(path_, {}).status();
  }

  std::string bytes_, path_;
};

TEST_F(GgufModel, Loads) { EXPECT_TRUE(load().ok()) << load().message(); }

TEST_F(GgufModel, NumbersMustBeFinite) {
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const char* key : {"llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base"}) {
      SetUp();
      set_value(key, value);
      EXPECT_EQ(load().code(), StatusCode::kDataLoss) << key;
      EXPECT_THAT(load().message(), HasSubstr(key));
    }
  }
}

TEST_F(GgufModel, TensorsThatWouldNotBeReadAreRefused) {
  set_value<uint32_t>("llama.block_count", 1);
  EXPECT_THAT(load().message(), HasSubstr("of 1 layers"));
  const std::pair<const char*, const char*> names[] = {{"blk.0.ffn_gate.weight", "blk.7.ffn_gate.weight"},
                                                       {"blk.0.ffn_gate.weight", "blk.0.ffn_grow.weight"},
                                                       {"blk.0.attn_output.weight", "blk.0.attn_q_norm.weight"}};
  for (const auto& [from, to] : names) {
    SetUp();
    rename(from, to);
    EXPECT_EQ(load().code(), StatusCode::kUnsupported) << to;
    EXPECT_THAT(load().message(), HasSubstr(to));
  }
}

TEST_F(GgufModel, OtherArchitecturesAreNamed) {
  rename("llama", "lamma");
  EXPECT_EQ(load().code(), StatusCode::kUnsupported);
  EXPECT_THAT(load().message(), HasSubstr("lamma"));
}

}  // namespace
}  // namespace vestige
