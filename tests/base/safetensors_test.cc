#include "base/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

namespace vestige {
namespace {

namespace fs = std::filesystem;

class SafetensorsTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string path(const char* name = "x.safetensors") const { return (dir_ / name).string(); }

  std::string write_bytes(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary) << bytes;
    return path();
  }

  /// A file of this header and data, as somebody else's writer would make it.
  std::string write_parts(const std::string& header, const std::string& data) const {
    const uint64_t n = header.size();
    return write_bytes(std::string(reinterpret_cast<const char*>(&n), 8) + header + data);
  }

  Status open_parts(const std::string& header, const std::string& data) const {
    return SafetensorsFile::open(write_parts(header, data)).status();
  }

  fs::path dir_;
};

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Two tensors; the header is 104 bytes, so data begin at 112.
std::string small_header() {
  std::string text =
      R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"U8","shape":[4],"data_offsets":[24,28]}})";
  while (text.size() % 8 != 0) text += ' ';
  return text;
}

/// Touches every byte of every tensor: a view past the end is a crash under a sanitizer.
uint64_t sum_of_bytes(const SafetensorsFile& file) {
  uint64_t sum = 0;
  for (const SafetensorsEntry& t : file.tensors()) {
    const auto bytes = file.file().bytes();
    EXPECT_LE(t.offset, bytes.size());
    EXPECT_LE(t.n_bytes, bytes.size() - t.offset);
    for (uint64_t i = 0; i < t.n_bytes; ++i) sum += static_cast<uint64_t>(bytes[t.offset + i]);
  }
  return sum;
}

TEST_F(SafetensorsTest, ReadsWhatOthersWrite) {
  const float values[6] = {1, 2, 3, 4, 5, 6};
  const std::string data = std::string(reinterpret_cast<const char*>(values), 24) + "wxyz";
  auto file = SafetensorsFile::open(write_parts(small_header(), data));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors().size(), 2u);
  auto a = file->find("a");
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(describe(*a), "[2, 3] F32");
  EXPECT_EQ(a->as<float>()[5], 6.0f);
  EXPECT_EQ(file->find("b")->as<uint8_t>()[3], 'z');
  EXPECT_EQ(file->find("c").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(SafetensorsFile::open(path("none")).status().code(), StatusCode::kNotFound);
}

TEST_F(SafetensorsTest, AZeroDoesNotHideAnOverflow) {
  for (const char* shape : {"[0,1099511627776,1099511627776]", "[1099511627776,1099511627776,0]"}) {
    const std::string header = std::string(R"({"a":{"dtype":"U8","shape":)") + shape + R"(,"data_offsets":[0,0]}})";
    EXPECT_EQ(open_parts(header, "").code(), StatusCode::kDataLoss) << shape;
  }
  EXPECT_TRUE(open_parts(R"({"a":{"dtype":"U8","shape":[0,5],"data_offsets":[0,0]}})", "").ok());
}

TEST_F(SafetensorsTest, EveryCutIsRefused) {
  const std::string whole = read_all(write_parts(small_header(), std::string(28, 'x')));
  ASSERT_TRUE(SafetensorsFile::open(write_bytes(whole)).ok());
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_EQ(SafetensorsFile::open(write_bytes(whole.substr(0, n))).status().code(), StatusCode::kDataLoss) << n;
  }
  EXPECT_EQ(SafetensorsFile::open(write_bytes(whole + "x")).status().code(), StatusCode::kDataLoss);
}

TEST_F(SafetensorsTest, FlippedBitsNeverLeadOutOfBounds) {
  const std::string whole = read_all(write_parts(small_header(), std::string(28, 'x')));
  std::mt19937 rng(7);
  const size_t n_front = 8 + small_header().size();
  size_t n_refused = 0;
  for (int round = 0; round < 600; ++round) {
    std::string bytes = whole;
    const int n_flips = 1 + static_cast<int>(rng() % 4);
    for (int i = 0; i < n_flips; ++i) bytes[rng() % n_front] ^= static_cast<char>(1u << (rng() % 8));
    auto file = SafetensorsFile::open(write_bytes(bytes));
    if (file.ok()) sum_of_bytes(*file);
    n_refused += file.ok() ? 0 : 1;
  }
  EXPECT_GT(n_refused, 400u);
}

TEST_F(SafetensorsTest, EverySingleHeaderByteMayBeWrong) {
  const std::string whole = read_all(write_parts(small_header(), std::string(28, 'x')));
  for (size_t at = 0; at < 8 + small_header().size(); ++at) {
    for (char c : {'9', '"', '\xff'}) {
      std::string bytes = whole;
      bytes[at] = c;
      auto file = SafetensorsFile::open(write_bytes(bytes));
      if (file.ok()) sum_of_bytes(*file);
    }
  }
}

TEST_F(SafetensorsTest, RefusesWhatDoesNotTileTheData) {
  const std::string two =
      R"({"a":{"dtype":"U8","shape":[%],"data_offsets":[%]},"b":{"dtype":"U8","shape":[4],"data_offsets":[%]}})";
  auto header = [&](const char* n, const char* a, const char* b) {
    std::string text = two;
    for (const char* value : {n, a, b}) text.replace(text.find('%'), 1, value);
    return text;
  };
  const std::string data(8, 'x');
  EXPECT_TRUE(open_parts(header("4", "0,4", "4,8"), data).ok());
  EXPECT_TRUE(open_parts(header("4", "4,8", "0,4"), data).ok()) << "order in the header is free";
  for (const auto& [n, a, b] : std::vector<std::array<const char*, 3>>{
           {"4", "0,4", "3,7"},                                           // overlap
           {"4", "0,4", "0,4"},                                           // the same bytes twice
           {"3", "0,3", "4,8"},                                           // a hole
           {"4", "0,4", "4,9"},                                           // past the end, and not its shape
           {"5", "0,4", "4,8"},                                           // not its shape
           {"4", "4,0", "4,8"},                                           // backwards
           {"4", "-4,0", "4,8"},                                          // negative
           {"4", "0.0,4.0", "4,8"},                                       // not integers
           {"4", "0,4,8", "4,8"},                                         // not a pair
           {"-4", "0,4", "4,8"},                                          // a negative dimension
           {"4294967296,4294967296", "0,0", "4,8"},                       // 2^64 elements
           {"9223372036854775807,3", "0,4", "4,8"},                       // overflow
           {"18446744073709551615", "0,4", "4,8"},                        // 2^64 - 1
           {"4", "18446744073709551612,18446744073709551616", "4,8"}}) {  // past uint64
    EXPECT_EQ(open_parts(header(n, a, b), data).code(), StatusCode::kDataLoss) << n << " | " << a << " | " << b;
  }
}

TEST_F(SafetensorsTest, RefusesWhatIsNotAHeader) {
  const std::string tensor = R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const std::string data(4, 'x');
  ASSERT_TRUE(open_parts("{\"a\":" + tensor + "}", data).ok());
  for (const std::string& header : std::initializer_list<std::string>{
           "", "[]", " {\"a\":" + tensor + "}", "{\"a\":" + tensor, "{\"a\":" + tensor + "}}",
           "{\"a\":" + tensor + ",\"a\":" + tensor + "}", "{\"a\":[]}", "{\"a\":{}}",
           R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"more":1}})",
           R"({"a":{"dtype":8,"shape":[4],"data_offsets":[0,4]}})",
           R"({"a":{"dtype":"U8","shape":4,"data_offsets":[0,4]}})",
           R"({"a":{"dtype":"U8","shape":["4"],"data_offsets":[0,4]}})", "{\"__metadata__\":1,\"a\":" + tensor + "}",
           "{\"__metadata__\":{\"k\":1},\"a\":" + tensor + "}", std::string(100000, '['),
           "{\"a\":" + std::string(100000, '[')}) {
    EXPECT_EQ(open_parts(header, data).code(), StatusCode::kDataLoss) << header.substr(0, 80);
  }
  EXPECT_EQ(open_parts(R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", data + data).code(),
            StatusCode::kUnsupported);
  const uint64_t huge = SafetensorsFile::kMaxHeaderBytes + 1;
  EXPECT_EQ(
      SafetensorsFile::open(write_bytes(std::string(reinterpret_cast<const char*>(&huge), 8) + "{}")).status().code(),
      StatusCode::kDataLoss);
}

TEST_F(SafetensorsTest, RefusesMisalignedNumbers) {
  std::string header =
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})";
  while (header.size() % 8 != 0) header += ' ';
  const Status status = open_parts(header, std::string(6, 'x'));
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("multiple of 4"), std::string::npos) << status.message();
}

TEST_F(SafetensorsTest, ScalarsEmptyTensorsAndManyDimensions) {
  const std::string header =
      R"({"deep":{"dtype":"U8","shape":[1,1,1,2,1],"data_offsets":[4,6]},"none":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]},)"
      R"("scalar":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})";
  std::string padded = header;
  while (padded.size() % 8 != 0) padded += ' ';
  auto file = SafetensorsFile::open(write_parts(padded, std::string(6, '\0')));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(describe(*file->find("scalar")), "[1] F32");
  EXPECT_TRUE(file->find("none")->empty());
  EXPECT_EQ(file->find("deep").status().code(), StatusCode::kUnsupported);
}

TEST_F(SafetensorsTest, WriterThenReader) {
  std::vector<uint8_t> bytes(100);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  const float numbers[3] = {0.5f, -1.0f, 2.0f};
  auto writer = SafetensorsWriter::create(
      path(), {{"bytes", DType::kU8, {100}}, {"none", DType::kI64, {0}}, {"numbers", DType::kF32, {3, 1}}},
      {{"format", "test"}, {"quote", "a\"b\\\xC3\xA9"}});
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  EXPECT_FALSE(fs::exists(path()));
  ASSERT_TRUE((*writer)->write("bytes", std::as_bytes(std::span(bytes)).first(33)).ok());
  ASSERT_TRUE((*writer)->write("bytes", std::as_bytes(std::span(bytes)).subspan(33)).ok());
  ASSERT_TRUE((*writer)->write("none", {}).ok());
  ASSERT_TRUE((*writer)->write("numbers", std::as_bytes(std::span(numbers))).ok());
  ASSERT_TRUE((*writer)->finish().ok());

  auto file = SafetensorsFile::open(path());
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->metadata().at("quote"), "a\"b\\\xC3\xA9");
  EXPECT_EQ(0, std::memcmp(file->find("bytes")->data, bytes.data(), 100));
  EXPECT_EQ(0, std::memcmp(file->find("numbers")->data, numbers, sizeof(numbers)));
  EXPECT_EQ(describe(*file->find("numbers")), "[3, 1] F32");
  for (const SafetensorsEntry& t : file->tensors()) {
    EXPECT_TRUE(t.name.starts_with("__pad.") || t.offset % SafetensorsWriter::kAlignment == 0) << t.name;
  }
  ASSERT_EQ((*writer)->tensors().size(), file->tensors().size());
  EXPECT_EQ((*writer)->tensors().front().offset, file->entry("bytes")->offset);
}

TEST_F(SafetensorsTest, WriterRefusesAndLeavesNothing) {
  for (const auto& entry : std::initializer_list<SafetensorsEntry>{{"", DType::kU8, {1}},
                                                                   {"__metadata__", DType::kU8, {1}},
                                                                   {"a", DType::kU8, {-1}},
                                                                   {"a", DType::kF32, {INT64_MAX}},
                                                                   {"a", DType::kU8, {INT64_MAX}},
                                                                   {"\xff", DType::kU8, {1}}}) {
    EXPECT_EQ(SafetensorsWriter::create(path(), {entry}, {}).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(SafetensorsWriter::create(path(), {{"a", DType::kU8, {1}}, {"a", DType::kU8, {1}}}, {}).status().code(),
            StatusCode::kInvalidArgument);
  const std::byte bytes[3] = {};
  {
    auto writer = SafetensorsWriter::create(path(), {{"a", DType::kU8, {2}}, {"b", DType::kU8, {2}}}, {});
    ASSERT_TRUE(writer.ok());
    EXPECT_FALSE((*writer)->write("b", std::span(bytes).first(2)).ok()) << "out of order";
    EXPECT_FALSE((*writer)->write("a", bytes).ok()) << "too many";
    EXPECT_TRUE((*writer)->write("a", std::span(bytes).first(2)).ok());
    EXPECT_TRUE((*writer)->write("b", std::span(bytes).first(1)).ok());
    EXPECT_FALSE((*writer)->finish().ok()) << "too few";
  }
  EXPECT_TRUE(fs::is_empty(dir_));
}

}  // namespace
}  // namespace vestige
