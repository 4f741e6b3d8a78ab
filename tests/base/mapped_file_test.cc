#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace vestige {
namespace {

namespace fs = std::filesystem;

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("vestige_mapped_file_" + std::to_string(::getpid()));
    fs::create_directory(dir_);
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(dir_, ignored);
  }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }
  void put(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  std::string get(const std::string& name) const {
    std::ifstream in(path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  int64_t n_files() const { return std::distance(fs::directory_iterator(dir_), fs::directory_iterator()); }

  fs::path dir_;
};

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(MappedFileTest, MapsAndReads) {
  put("a", "0123456789");
  const auto file = MappedFile::open(path("a"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(text_of(file->bytes()), "0123456789");
  EXPECT_EQ(file->path(), path("a"));
  std::string part(4, ' ');
  ASSERT_TRUE(file->read(3, std::as_writable_bytes(std::span(part))).ok());
  EXPECT_EQ(part, "3456");
}

TEST_F(MappedFileTest, ReadsStayInside) {
  put("a", "0123456789");
  const auto file = MappedFile::open(path("a"));
  ASSERT_TRUE(file.ok());
  std::string part(4, ' ');
  const auto span = std::as_writable_bytes(std::span(part));
  for (uint64_t offset : {uint64_t{7}, uint64_t{11}, UINT64_MAX, UINT64_MAX - 2}) {
    EXPECT_EQ(file->read(offset, span).code(), StatusCode::kDataLoss) << offset;
  }
  EXPECT_TRUE(file->read(6, span).ok());
  EXPECT_TRUE(file->read(10, span.subspan(4)).ok());
}

TEST_F(MappedFileTest, EmptyFile) {
  put("empty", "");
  const auto file = MappedFile::open(path("empty"));
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->bytes().empty());
}

TEST_F(MappedFileTest, MovesKeepTheBytes) {
  put("a", "abc");
  MappedFile target;
  {
    auto file = MappedFile::open(path("a"));
    ASSERT_TRUE(file.ok());
    target = std::move(*file);
  }
  const MappedFile again(std::move(target));
  EXPECT_EQ(text_of(again.bytes()), "abc");
}

TEST_F(MappedFileTest, NamesWhatIsMissingOrNotAFile) {
  const auto missing = MappedFile::open(path("no/such"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find(path("no/such")), std::string::npos);
  const auto folder = MappedFile::open(dir_.string());
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.status().code(), StatusCode::kDataLoss);
}

TEST_F(MappedFileTest, AtomicFileAppearsOnlyOnCommit) {
  auto file = AtomicFile::create(path("out"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_TRUE((*file)->write(bytes_of("hello ")).ok());
  ASSERT_TRUE((*file)->write(bytes_of("world")).ok());
  EXPECT_FALSE(fs::exists(path("out")));
  EXPECT_TRUE(fs::exists((*file)->temporary_path()));
  ASSERT_TRUE((*file)->commit().ok());
  EXPECT_EQ(get("out"), "hello world");
  EXPECT_EQ(n_files(), 1);
}

TEST_F(MappedFileTest, AtomicFileReplacesTheOldOneWhole) {
  put("out", "the old and longer text");
  const auto old = MappedFile::open(path("out"));
  ASSERT_TRUE(old.ok());
  auto file = AtomicFile::create(path("out"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->write(bytes_of("new")).ok());
  EXPECT_EQ(get("out"), "the old and longer text");
  ASSERT_TRUE((*file)->commit().ok());
  EXPECT_EQ(get("out"), "new");
  EXPECT_EQ(text_of(old->bytes()), "the old and longer text");  // a mapping of the old file stays whole
}

TEST_F(MappedFileTest, AFifoIsNoFile) {
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::open(path("fifo")).status().code(), StatusCode::kDataLoss);
}

TEST_F(MappedFileTest, TwoAtomicFilesOfOneName) {
  put("out.tmp" + std::to_string(getpid()), "left by a killed process with our id");
  auto a = AtomicFile::create(path("out")), b = AtomicFile::create(path("out"));
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_TRUE((*a)->write(bytes_of("a")).ok());
  ASSERT_TRUE((*b)->write(bytes_of("b")).ok());
  ASSERT_TRUE((*a)->commit().ok());
  EXPECT_EQ(get("out"), "a");
  ASSERT_TRUE((*b)->commit().ok());
  EXPECT_EQ(get("out"), "b");
}

TEST_F(MappedFileTest, UnlinkAllRemovesWhatIsBeingWritten) {
  auto a = AtomicFile::create(path("a")), b = AtomicFile::create(path("b"));
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_TRUE((*b)->commit().ok());
  AtomicFile::unlink_all();
  EXPECT_FALSE(fs::exists((*a)->temporary_path()));
  EXPECT_TRUE(fs::exists(path("b")));
}

TEST_F(MappedFileTest, AtomicFileLeavesNothingWithoutCommit) {
  put("out", "kept");
  {
    auto file = AtomicFile::create(path("out"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->write(bytes_of("dropped")).ok());
  }
  EXPECT_EQ(get("out"), "kept");
  EXPECT_EQ(n_files(), 1);
}

TEST_F(MappedFileTest, AtomicFileNamesTheFolderItCannotWrite) {
  const auto file = AtomicFile::create(path("no/such/folder"));
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::kIoError);
  EXPECT_NE(file.status().message().find("no/such/folder"), std::string::npos);
}

TEST_F(MappedFileTest, AtomicFileCleansUpWhenTheNameCannotBeTaken) {
  fs::create_directories(path("out") + "/inside");  // a folder that rename cannot replace
  auto file = AtomicFile::create(path("out"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->write(bytes_of("x")).ok());
  EXPECT_EQ((*file)->commit().code(), StatusCode::kIoError);
  file->reset();
  EXPECT_EQ(n_files(), 1);
}

}  // namespace
}  // namespace vestige
