// The .vctx file as an outsider may damage it: every cut, flipped bits, other versions, other files.

#include <fcntl.h>

#include <cstring>
#include <functional>
#include <random>

#include "engine/checksum.h"
#include "engine/context_format.h"
#include "engine/context_writer.h"
#include "tests/engine/tiny_engine.h"

namespace vestige {
namespace {

using testing::make_engine;
using testing::read_bytes;
using testing::small_blocks;
using testing::some_tokens;
using testing::write_bytes;

class ContextFileTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::ScratchFolder();
    model_ = testing::make_tiny_model(*folder_, "model");
    engine_ = make_engine(model_).release();
    path_ = folder_->file("small.vctx");
    const auto context = testing::read_all(*engine_, small_blocks(), some_tokens(150));
    const Status status = context->save(path_, {});
    ASSERT_TRUE(status.ok()) << status.message();
    bytes_ = read_bytes(path_);
  }
  static void TearDownTestSuite() {
    delete engine_;
    delete folder_;
  }
  void SetUp() override { ASSERT_FALSE(bytes_.empty()); }

  /// The file with `from` in its header replaced by `to` of the same length, and the header's checksum put right.
  static std::string with_header(const std::string& from, const std::string& to) {
    std::string bytes = bytes_;
    bytes.replace(bytes.find(from), from.size(), to);
    uint64_t n_header = 0;
    std::memcpy(&n_header, bytes.data(), sizeof n_header);
    const Digest header = digest_of(std::as_bytes(std::span(bytes)).first(8 + n_header));
    std::memcpy(bytes.data() + bytes.size() - 32, header.data(), 16);
    return bytes;
  }
  static Status open_bytes(const std::string& bytes) {
    const std::string path = folder_->file("changed.vctx");
    write_bytes(path, bytes);
    return ContextFile::open(path).status();
  }

  static testing::ScratchFolder* folder_;
  static Engine* engine_;
  static std::string model_, path_, bytes_;
};

testing::ScratchFolder* ContextFileTest::folder_ = nullptr;
Engine* ContextFileTest::engine_ = nullptr;
std::string ContextFileTest::model_, ContextFileTest::path_, ContextFileTest::bytes_;

TEST_F(ContextFileTest, SaysWhatItHolds) {
  const auto file = ContextFile::open(path_);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->n_tokens(), 150);
  EXPECT_EQ((*file)->size_bytes(), static_cast<int64_t>(bytes_.size()));
  EXPECT_EQ((*file)->policy().name, "vestige");
  EXPECT_EQ((*file)->policy().block_rows, 64);
  EXPECT_EQ((*file)->policy().ratio, 8);
  EXPECT_EQ((*file)->model_identity(), engine_->model().info().identity);
  EXPECT_EQ((*file)->model_dir(), model_);
  EXPECT_EQ((*file)->cache_layers().size(), 1u);
}

TEST_F(ContextFileTest, EveryTruncationIsRefused) {
  const std::string path = folder_->file("cut.vctx");
  write_bytes(path, bytes_);
  for (auto n = static_cast<off_t>(bytes_.size()) - 1; n >= 0; --n) {
    ASSERT_EQ(truncate(path.c_str(), n), 0);
    const Status status = ContextFile::open(path).status();
    ASSERT_EQ(status.code(), StatusCode::kDataLoss) << "cut to " << n << " bytes: " << status.message();
  }
}

TEST_F(ContextFileTest, TrailingBytesAreRefused) {
  EXPECT_EQ(open_bytes(bytes_ + std::string(1, '\0')).code(), StatusCode::kDataLoss);
  EXPECT_EQ(open_bytes(bytes_ + bytes_.substr(bytes_.size() - 64)).code(), StatusCode::kDataLoss);
}

TEST_F(ContextFileTest, FlippedBitsAreRefused) {
  const std::string path = folder_->file("flipped.vctx");
  write_bytes(path, bytes_);
  std::mt19937_64 random(7);
  const int fd = open(path.c_str(), O_WRONLY);
  ASSERT_GE(fd, 0);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t bit = random() % (bytes_.size() * 8);
    const auto at = static_cast<off_t>(bit / 8);
    const char flipped = static_cast<char>(bytes_[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_EQ(pwrite(fd, &flipped, 1, at), 1);
    const Status status = ContextFile::open(path).status();
    ASSERT_EQ(pwrite(fd, &bytes_[bit / 8], 1, at), 1);
    ASSERT_EQ(status.code(), StatusCode::kDataLoss) << "bit " << bit << ": " << status.message();
  }
  close(fd);
  EXPECT_TRUE(ContextFile::open(path).ok());
}

// The parts with the fewest bytes, which random flips seldom hit: header length and the whole checksum table.
TEST_F(ContextFileTest, EveryBitOfLengthAndTableIsCovered) {
  const std::string path = folder_->file("flipped.vctx");
  uint64_t n_header = 0;
  std::memcpy(&n_header, bytes_.data(), sizeof n_header);
  const std::string header = bytes_.substr(8, n_header);
  const size_t shape = header.find("\"shape\":[", header.find("\"checksums\":")) + 9;
  const size_t n_table = std::stoul(header.substr(shape));
  std::vector<size_t> places;
  for (size_t i = 0; i < 8; ++i) places.push_back(i);
  for (size_t i = bytes_.size() - n_table; i < bytes_.size(); ++i) places.push_back(i);
  write_bytes(path, bytes_);
  const int fd = open(path.c_str(), O_WRONLY);
  for (const size_t at : places) {
    for (int bit = 0; bit < 8; ++bit) {
      const char flipped = static_cast<char>(bytes_[at] ^ (1 << bit));
      ASSERT_EQ(pwrite(fd, &flipped, 1, static_cast<off_t>(at)), 1);
      ASSERT_EQ(ContextFile::open(path).status().code(), StatusCode::kDataLoss) << "byte " << at << " bit " << bit;
    }
    ASSERT_EQ(pwrite(fd, &bytes_[at], 1, static_cast<off_t>(at)), 1);
  }
  close(fd);
}

// What the header says, its version and dtypes above all, is believed only after its checksum.
TEST_F(ContextFileTest, EveryHeaderByteIsUnderItsChecksum) {
  uint64_t n_header = 0;
  std::memcpy(&n_header, bytes_.data(), sizeof n_header);
  const std::string path = folder_->file("flipped.vctx");
  write_bytes(path, bytes_);
  const int fd = open(path.c_str(), O_WRONLY);
  for (size_t at = 8; at < 8 + n_header; ++at) {
    const char flipped = static_cast<char>(bytes_[at] ^ 2);
    ASSERT_EQ(pwrite(fd, &flipped, 1, static_cast<off_t>(at)), 1);
    const Status status = ContextFile::open(path).status();
    ASSERT_EQ(status.code(), StatusCode::kDataLoss) << "byte " << at << ": " << status.message();
    ASSERT_EQ(pwrite(fd, &bytes_[at], 1, static_cast<off_t>(at)), 1);
  }
  close(fd);
}

TEST_F(ContextFileTest, OtherVersionsAreUnsupported) {
  for (const auto& [version, word] : {std::pair{"3", "newer"}, std::pair{"1", "older"}}) {
    const std::string text = std::string("\"format_version\":\"") + version + "\"";
    const Status status = open_bytes(with_header("\"format_version\":\"2\"", text));
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  }
}

TEST_F(ContextFileTest, HeaderChangedOnPurposeIsStillCheckedForSense) {
  EXPECT_TRUE(open_bytes(with_header("\"n_tokens\":\"150\"", "\"n_tokens\":\"150\"")).ok());
  EXPECT_EQ(open_bytes(with_header("\"n_tokens\":\"150\"", "\"n_tokens\":\"151\"")).code(), StatusCode::kDataLoss);
  EXPECT_EQ(open_bytes(with_header("\"n_tokens\":\"150\"", "\"n_tokens\":\"-50\"")).code(), StatusCode::kDataLoss);
  EXPECT_EQ(open_bytes(with_header("\"vestige.vctx\"", "\"vestige.vctz\"")).code(), StatusCode::kDataLoss);
  EXPECT_EQ(open_bytes(with_header("\\\"block_rows\\\":64", "\\\"block_rowz\\\":64")).code(), StatusCode::kDataLoss);
}

TEST_F(ContextFileTest, NumbersOutOfRangeAreDamage) {
  ContextHeader header;
  header.policy = small_blocks();
  header.cache_layers = engine_->model().info().cache_layers;
  const auto good = write_metadata(header);
  ASSERT_TRUE(read_metadata(good).ok());
  for (const auto& [field, from, to] :
       std::initializer_list<std::array<std::string, 3>>{{"policy", "\"block_rows\":64", "\"block_rows\":4294967360"},
                                                         {"policy", "\"block_rows\":64", "\"block_rows\":1e300"},
                                                         {"policy", "\"block_rows\":64", "\"block_rows\":64.0"},
                                                         {"policy", "\"seed\":0", "\"seed\":-1"},
                                                         {"policy", "\"ratio\":8.0", "\"ratio\":true"},
                                                         {"layers", "\"dtype\":\"BF16\"", "\"dtype\":\"U8\""},
                                                         {"layers", "\"scale\":", "\"scale\":1e300,\"was\":"}}) {
    auto bad = good;
    const size_t at = bad[field].find(from);
    ASSERT_NE(at, std::string::npos) << from;
    bad[field].replace(at, from.size(), to);
    EXPECT_EQ(read_metadata(bad).status().code(), StatusCode::kDataLoss) << to;
  }
}

// Valid checksums over what no Vestige writes.
TEST_F(ContextFileTest, NonsenseWithValidChecksumsIsRefused) {
  const auto rewritten = [&](const std::function<void(ContextHeader&, std::vector<int32_t>&)>& edit) -> std::string {
    const auto from = SafetensorsFile::open(path_);
    EXPECT_TRUE(from.ok());
    auto header = read_metadata(from->metadata());
    EXPECT_TRUE(header.ok());
    const auto stored = from->find(kTokens);
    std::vector<int32_t> tokens(stored->as<int32_t>(), stored->as<int32_t>() + stored->n_elements());
    edit(*header, tokens);
    const std::string path = folder_->file("nonsense.vctx");
    const SaveParts save = [&](TensorSink& sink) -> Status {
      for (const SafetensorsEntry& t : from->tensors()) {
        if (t.name == kChecksums || t.name.starts_with("__pad")) continue;
        VESTIGE_ASSIGN(ConstTensorView view, from->find(t.name));
        if (t.name == kTokens) view.data = tokens.data();
        VESTIGE_TRY(sink.put(t.name, view));
      }
      return {};
    };
    const Status status = write_context(path, *header, save, {});
    EXPECT_TRUE(status.ok()) << status.message();
    return path;
  };
  const auto loaded = [&](const std::string& path) -> Status {
    const auto file = ContextFile::open(path);
    EXPECT_TRUE(file.ok()) << file.status().message();
    return file.ok() ? Context::load(*engine_, *file).status() : file.status();
  };
  EXPECT_TRUE(loaded(rewritten([](auto&, auto&) {})).ok());
  for (const int32_t bad : {-1, 256}) {
    const Status status = loaded(rewritten([&](auto&, auto& tokens) { tokens[149] = bad; }));
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_NE(status.message().find("tokens[149]"), std::string::npos) << status.message();
  }
  EXPECT_EQ(loaded(rewritten([](auto& h, auto&) { ++h.cache_layers[0].h_q; })).code(), StatusCode::kMismatch);
  EXPECT_EQ(loaded(rewritten([](auto& h, auto&) { h.cache_layers[0].scale *= 2; })).code(), StatusCode::kMismatch);
  const std::pair<const char*, std::function<void(ContextHeader&)>> headers[] = {
      {"policy = ", [](auto& h) { h.policy.name = "best"; }},
      {"ratio", [](auto& h) { h.policy.ratio = 0.5; }},
      {"block_rows", [](auto& h) { h.policy.block_rows = 1; }},
      {"no_such", [](auto& h) { h.policy.settings["no_such"] = 1; }},
      {"tau", [](auto& h) { h.policy.settings["tau"] = 7; }},
      {"order", [](auto& h) { h.cache_layers.push_back(h.cache_layers[0]); }},
  };
  for (const auto& [word, edit] : headers) {
    const Status status = ContextFile::open(rewritten([&](auto& h, auto&) { edit(h); })).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << word;
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  }
}

TEST_F(ContextFileTest, CheckingCanBeStopped) {
  EXPECT_EQ(ContextFile::open(path_, [](int64_t, int64_t) { return false; }).status().code(), StatusCode::kCancelled);
  int64_t n_seen = 0;
  EXPECT_TRUE(ContextFile::open(path_, [&](int64_t n, int64_t total) {
                n_seen = n;
                return n <= total;
              }).ok());
  EXPECT_GT(n_seen, 0);
}

TEST_F(ContextFileTest, OtherFilesAreRefused) {
  EXPECT_EQ(ContextFile::open(folder_->file("missing")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ContextFile::open(model_).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(open_bytes("").code(), StatusCode::kDataLoss);
  EXPECT_EQ(open_bytes("It was a dark and stormy night.\n").code(), StatusCode::kDataLoss);
  const Status weights = ContextFile::open(model_ + "/model.safetensors").status();
  EXPECT_EQ(weights.code(), StatusCode::kDataLoss);
  EXPECT_NE(weights.message().find("not a .vctx"), std::string::npos) << weights.message();
}

TEST_F(ContextFileTest, WrongModelIsAMismatch) {
  const auto other = make_engine(testing::make_tiny_model(*folder_, "other", "\n"));
  const auto file = ContextFile::open(path_);
  ASSERT_TRUE(file.ok());
  const Status status = Context::load(*other, *file).status();
  EXPECT_EQ(status.code(), StatusCode::kMismatch);
  EXPECT_NE(status.message().find(engine_->model().info().identity), std::string::npos) << status.message();
  EXPECT_NE(status.message().find(other->model().info().identity), std::string::npos) << status.message();
}

TEST_F(ContextFileTest, WrongTokenizerIsAMismatch) {
  const std::string dir = testing::make_tiny_model(*folder_, "retokenized");
  write_bytes(dir + "/tokenizer.json", read_bytes(dir + "/tokenizer.json") + "\n");
  const auto other = make_engine(dir);
  const auto file = ContextFile::open(path_);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(Context::load(*other, *file).status().code(), StatusCode::kMismatch);
}

TEST_F(ContextFileTest, StoppedWritingLeavesTheOldFile) {
  const auto context = testing::read_all(*engine_, small_blocks(), some_tokens(150));
  const std::string path = folder_->file("old.vctx");
  write_bytes(path, "old");
  EXPECT_EQ(context->save(path, [](int64_t, int64_t) { return false; }).code(), StatusCode::kCancelled);
  EXPECT_EQ(read_bytes(path), "old");
  for (const auto& entry : testing::fs::directory_iterator(testing::fs::path(path).parent_path())) {
    EXPECT_EQ(entry.path().string().find("old.vctx."), std::string::npos) << entry.path();
  }
  EXPECT_EQ(context->save(folder_->file("no/such/folder.vctx"), {}).code(), StatusCode::kIoError);
}

}  // namespace
}  // namespace vestige
