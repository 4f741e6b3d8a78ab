// GGUF files: what the `gguf` package wrote is read back (tests/base/gguf/make_fixture.py), and whatever bytes come are
// either refused or safe to use.

#include "base/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace vestige {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kFolder = std::string(VESTIGE_SOURCE_DIR) + "/tests/base/gguf/";

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class T>
std::string bytes_of(T value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}
std::string text_of(const std::string& text) { return bytes_of<uint64_t>(text.size()) + text; }

/// One tensor's description.
std::string tensor_of(const std::string& name, std::vector<uint64_t> shape, uint32_t type, uint64_t offset) {
  std::string out = text_of(name) + bytes_of(static_cast<uint32_t>(shape.size()));
  for (const uint64_t n : shape) out += bytes_of(n);
  return out + bytes_of(type) + bytes_of(offset);
}

class GgufTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".gguf";
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Result<GgufFile> open_bytes(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    return GgufFile::open(path_);
  }
  /// A version 3 file of these descriptions and 4 KiB of data.
  Status open_parts(const std::vector<std::string>& values, const std::vector<std::string>& tensors) const {
    std::string bytes = "GGUF" + bytes_of(3u) + bytes_of<uint64_t>(tensors.size()) + bytes_of<uint64_t>(values.size());
    for (const std::string& part : values) bytes += part;
    for (const std::string& part : tensors) bytes += part;
    bytes.resize((bytes.size() + 31) / 32 * 32 + 4096);
    return open_bytes(bytes).status();
  }

  std::string path_;
};

TEST_F(GgufTest, ReadsMetadata) {
  const auto file = GgufFile::open(kFolder + "tiny.gguf");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(*file->text("general.architecture"), "llama");
  EXPECT_EQ(*file->integer("test.u32"), 4'000'000'000);
  EXPECT_EQ(*file->integer("test.i32"), -7);
  EXPECT_EQ(*file->integer("test.u64"), int64_t{1} << 40);
  EXPECT_EQ(*file->integer("test.u8"), 200);
  EXPECT_EQ(*file->real("test.f32"), 0.5);
  EXPECT_EQ(*file->real("test.f64"), 1e-300);
  EXPECT_EQ(*file->real("test.i32"), -7);
  EXPECT_TRUE(*file->boolean("test.bool"));
  EXPECT_EQ(*file->text("test.text"), "Grüße");
  EXPECT_THAT(*file->texts("test.texts"), ElementsAre("a", "", "Ġthe"));
  EXPECT_THAT(*file->integers("test.integers"), ElementsAre(3, -1, 2));
  EXPECT_THAT(*file->reals("test.reals"), ElementsAre(0.25, -2.5));
  EXPECT_EQ(file->integer("test.none").status().code(), StatusCode::kNotFound);
  for (const char* key : {"test.f32", "test.text", "test.bool", "test.integers"}) {
    EXPECT_EQ(file->integer(key).status().code(), StatusCode::kDataLoss) << key;
  }
  EXPECT_EQ(file->text("test.texts").status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(file->texts("test.text").status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(file->reals("test.integers").status().code(), StatusCode::kDataLoss);
}

TEST_F(GgufTest, DecodesEveryEncodingAsThePackageDoes) {
  const auto file = GgufFile::open(kFolder + "tiny.gguf");
  ASSERT_TRUE(file.ok());
  const std::string expected = read_file(kFolder + "tiny.f32");
  ASSERT_EQ(file->tensors().size(), 8u);
  ASSERT_EQ(expected.size(), 8u * 3 * 512 * sizeof(float));
  size_t at = 0;
  for (const GgufTensor& tensor : file->tensors()) {
    EXPECT_THAT(tensor.shape, ElementsAre(3, 512)) << tensor.name;
    EXPECT_EQ(tensor.name, std::string("tensor.") + dtype_name(tensor.dtype));
    EXPECT_EQ(file->find(tensor.name), &tensor);
    std::vector<float> want(3 * 512), got(want.size());
    std::memcpy(want.data(), expected.data() + at, want.size() * sizeof(float));
    at += want.size() * sizeof(float);
    decode_blocks(tensor.dtype, file->data(tensor), static_cast<int64_t>(got.size()), got.data());
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], 1e-6 * (1 + std::abs(double(want[i])))) << tensor.name << " " << i;
    }
  }
  EXPECT_EQ(file->find("tensor"), nullptr);
}

TEST_F(GgufTest, RefusesEveryCutFile) {
  const std::string whole = read_file(kFolder + "tiny.gguf");
  const size_t end = whole.size() - 20;  // the last tensor's; zeros up to a multiple of 32 follow
  for (size_t n = 0; n < end; n += n < 512 ? 1 : 37) {
    EXPECT_EQ(open_bytes(whole.substr(0, n)).status().code(), StatusCode::kDataLoss) << n;
  }
  EXPECT_EQ(open_bytes(whole.substr(0, end - 1)).status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(open_bytes(whole.substr(0, end)).ok());
}

// What a flipped byte leaves readable must be safe to read: sanitizers watch.
TEST_F(GgufTest, FlippedBytesAreRefusedOrSafe) {
  const std::string whole = read_file(kFolder + "tiny.gguf");
  std::mt19937_64 random(3);
  int n_refused = 0;
  for (int i = 0; i < 500; ++i) {
    std::string bytes = whole;
    const size_t at = random() % 1200;  // header, metadata and descriptions
    bytes[at] = static_cast<char>(static_cast<uint8_t>(bytes[at]) ^ (1u << random() % 8));
    const auto file = open_bytes(bytes);
    if (!file.ok()) {
      ++n_refused;
      continue;
    }
    for (const char* key :
         {"test.text", "test.texts", "test.integers", "test.reals", "test.u64", "general.architecture"}) {
      (void)file->text(key);
      (void)file->texts(key);
      (void)file->integers(key);
      (void)file->reals(key);
      (void)file->integer(key);
    }
    for (const GgufTensor& t : file->tensors()) {
      int64_t n = 1;
      for (const int64_t d : t.shape) n *= d;
      std::vector<float> numbers(static_cast<size_t>(n));
      decode_blocks(t.dtype, file->data(t), n, numbers.data());
    }
  }
  EXPECT_GT(n_refused, 100);
}

TEST_F(GgufTest, NamesWhatIsWrong) {
  const std::string u32 = bytes_of(4u) + bytes_of(7u);
  const auto value = [&](const std::string& key) { return text_of(key) + u32; };
  const auto array = [](uint32_t type, uint64_t n) {
    return text_of("k") + bytes_of(9u) + bytes_of(type) + bytes_of(n);
  };
  constexpr uint64_t kHuge = ~uint64_t{0};
  const struct {
    const char* says;
    std::vector<std::string> values, tensors;
  } cases[] = {
      {"\"k\" is there twice", {value("k"), value("k")}, {}},
      {"\"t\" is there twice", {}, {tensor_of("t", {8}, 0, 0), tensor_of("t", {8}, 0, 32)}},
      {"overlap", {}, {tensor_of("a", {9}, 0, 0), tensor_of("b", {8}, 0, 32)}},
      {"not a multiple of 32", {}, {tensor_of("t", {8}, 0, 4)}},
      {"reaches past its end", {}, {tensor_of("t", {8, 129}, 0, 0)}},
      {"reaches past its end", {}, {tensor_of("t", {8}, 0, kHuge - 31)}},
      {"elements along one dimension", {}, {tensor_of("t", {kHuge, kHuge}, 0, 0)}},
      {"elements along one dimension", {}, {tensor_of("t", {0}, 0, 0)}},
      {"not a multiple of Q8_0's 32", {}, {tensor_of("t", {33, 2}, 8, 0)}},
      {"5 dimensions", {}, {tensor_of("t", {1, 1, 1, 1, 1}, 0, 0)}},
      {"encoding 10", {}, {tensor_of("t", {256}, 10, 0)}},
      {"strings do not fit", {array(8, kHuge / 8)}, {}},
      {"values do not fit", {array(5, kHuge / 2)}, {}},
      {"plain values only", {array(9, 1)}, {}},
      {"value of type 13", {text_of("k") + bytes_of(13u)}, {}},
      {"general.alignment = 48",
       {text_of("general.alignment") + bytes_of(4u) + bytes_of(48u)},
       {tensor_of("t", {8}, 0, 0)}},
      {"general.alignment = 0", {text_of("general.alignment") + bytes_of(4u) + bytes_of(0u)}, {}},
  };
  for (const auto& c : cases) {
    const Status status = open_parts(c.values, c.tensors);
    EXPECT_FALSE(status.ok()) << c.says;
    EXPECT_THAT(status.message(), HasSubstr(c.says));
    EXPECT_THAT(status.message(), HasSubstr(path_));
  }
  EXPECT_TRUE(open_parts({value("k")}, {tensor_of("t", {8, 128}, 0, 0)}).ok());
  EXPECT_THAT(open_bytes("GGML" + std::string(64, '\0')).status().message(), HasSubstr("does not begin with GGUF"));
  EXPECT_EQ(open_bytes("GGUF" + bytes_of(4u) + std::string(64, '\0')).status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(open_bytes("GGUF" + bytes_of(3u) + bytes_of(kHuge) + bytes_of<uint64_t>(0)).status().message(),
              HasSubstr("tensors do not fit"));
  EXPECT_EQ(GgufFile::open(path_ + ".none").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace vestige
