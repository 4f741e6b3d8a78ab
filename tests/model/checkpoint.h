#pragma once

// A checkpoint folder in memory, to be changed by a test and written again.

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/safetensors.h"

namespace vestige {

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

struct StoredTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  static StoredTensor from_floats(std::vector<int64_t> shape, const std::vector<float>& values) {
    StoredTensor t{DType::kF32, std::move(shape), std::vector<std::byte>(values.size() * sizeof(float))};
    std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
    return t;
  }
  std::vector<float> floats() const {
    std::vector<float> out(bytes.size() / dtype_bytes(dtype));
    for (size_t i = 0; i < out.size(); ++i) {
      uint16_t half = 0;
      if (dtype == DType::kBF16) {
        std::memcpy(&half, bytes.data() + i * 2, 2);
        out[i] = bf16_to_f32(half);
      } else if (dtype == DType::kF8E4M3) {
        out[i] = f8e4m3_to_f32(static_cast<uint8_t>(bytes[i]));
      } else {
        std::memcpy(&out[i], bytes.data() + i * 4, 4);
      }
    }
    return out;
  }
};

struct Checkpoint {
  std::string config;
  std::map<std::string, StoredTensor> tensors;

  /// tests/parity/moe_tiny: every feature of the architecture in 300 kB.
  static Checkpoint moe_tiny() { return fixture("moe_tiny"); }
  static Checkpoint fixture(const std::string& name) {
    const std::string dir = VESTIGE_SOURCE_DIR "/tests/parity/" + name;
    Checkpoint out;
    out.config = read_text(dir + "/config.json");
    auto file = SafetensorsFile::open(dir + "/model.safetensors");
    EXPECT_TRUE(file.ok()) << file.status().message();
    for (const SafetensorsEntry& t : file->tensors()) {
      const auto bytes = file->file().bytes().subspan(t.offset, t.n_bytes);
      out.tensors[t.name] = {t.dtype, t.shape, {bytes.begin(), bytes.end()}};
    }
    return out;
  }

  /// config.json with `from` replaced; the test fails if it is not there.
  void edit_config(const std::string& from, const std::string& to) {
    const size_t at = config.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    config.replace(at, from.size(), to);
  }

  /// Writes the tensors that `wanted` takes into one file.
  template <class Wanted>
  void write_file(const std::string& path, const Wanted& wanted) const {
    std::vector<SafetensorsEntry> entries;
    for (const auto& [name, t] : tensors) {
      if (wanted(name)) entries.push_back({name, t.dtype, t.shape});
    }
    auto writer = SafetensorsWriter::create(path, entries, {});
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    for (const SafetensorsEntry& entry : entries) {
      ASSERT_TRUE((*writer)->write(entry.name, tensors.at(entry.name).bytes).ok());
    }
    ASSERT_TRUE((*writer)->finish().ok());
  }

  void write(const std::string& dir) const {
    std::filesystem::create_directories(dir);
    write_text(dir + "/config.json", config);
    write_file(dir + "/model.safetensors", [](const std::string&) { return true; });
  }

  /// In two shards with an index, as large checkpoints come.
  void write_sharded(const std::string& dir) const {
    std::filesystem::create_directories(dir);
    write_text(dir + "/config.json", config);
    const auto in_first = [](const std::string& name) { return name < "model.layers.2"; };
    const std::string names[2] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
    write_file(dir + "/" + names[0], in_first);
    write_file(dir + "/" + names[1], [&](const std::string& name) { return !in_first(name); });
    std::string index = "{\"metadata\":{\"total_size\":0},\"weight_map\":{";
    for (const auto& [name, t] : tensors) {
      index += (index.back() == '{' ? "\"" : ",\"") + name + "\":\"" + names[in_first(name) ? 0 : 1] + "\"";
    }
    write_text(dir + "/model.safetensors.index.json", index + "}}");
  }
};

/// A folder of the running test, removed with the object.
class TestFolder {
 public:
  TestFolder()
      : path_(testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->test_suite_name() +
              "." + testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace vestige
