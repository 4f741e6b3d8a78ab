#pragma once

// A small random model (one of tests/parity) with a tokenizer put beside it, in a folder of its own.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "vestige/engine.h"

namespace vestige::testing {

namespace fs = std::filesystem;

/// A folder that goes when the object goes.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "vestige_test_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// @param salt goes into config.json, and so into the model's identity.
/// @param fixture with a vocabulary of 256 or more
inline std::string make_tiny_model(const ScratchFolder& folder, const std::string& name, const std::string& salt = "",
                                   const std::string& fixture = "moe_tiny") {
  const fs::path source = fs::path(VESTIGE_SOURCE_DIR) / "tests";
  const std::string dir = folder.file(name);
  fs::create_directory(dir);
  fs::copy_file(source / "parity" / fixture / "model.safetensors", dir + "/model.safetensors");
  fs::copy_file(source / "tokenizer/split_tiny/tokenizer.json", dir + "/tokenizer.json");
  write_bytes(dir + "/config.json", read_bytes((source / "parity" / fixture / "config.json").string()) + salt);
  return dir;
}

/// Leaves only the tokens of single bytes in the model's tokenizer: the tiny model has no rows for the others, so text
/// that the library writes itself would not do.
inline std::string with_byte_tokens(const std::string& model_dir) {
  const std::string path = model_dir + "/tokenizer.json";
  nlohmann::json file = nlohmann::json::parse(read_bytes(path));
  nlohmann::json bytes = nlohmann::json::object();
  for (const auto& [token, id] : file["model"]["vocab"].items()) {
    if (id.get<int>() < 256) bytes[token] = id;
  }
  file["model"]["vocab"] = bytes;
  file["model"]["merges"] = nlohmann::json::array();
  file["added_tokens"] = nlohmann::json::array();
  write_bytes(path, file.dump());
  return model_dir;
}

inline std::unique_ptr<Engine> make_engine(const std::string& dir, int32_t n_threads = 2,
                                           DType row_dtype = DType::kBF16) {
  EngineOptions options;
  options.model_dir = dir;
  options.stream.n_threads = n_threads;
  options.stream.pin_threads = false;
  options.model.row_dtype = row_dtype;
  auto engine = Engine::create(options);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return engine.ok() ? std::move(engine).value() : nullptr;
}

inline std::vector<int32_t> some_tokens(int64_t n, uint32_t seed = 1) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    tokens.push_back(static_cast<int32_t>(3 + (seed >> 16) % 250));
  }
  return tokens;
}

inline PolicyConfig small_blocks(const std::string& name = "vestige") {
  PolicyConfig policy;
  policy.name = name;
  policy.block_rows = 64;
  policy.ratio = 8;
  return policy;
}

/// A context that has read `tokens` in pieces of `chunk`.
inline std::unique_ptr<Context> read_all(Engine& engine, const PolicyConfig& policy, const std::vector<int32_t>& tokens,
                                         size_t chunk = SIZE_MAX) {
  auto context = Context::create(engine, policy);
  EXPECT_TRUE(context.ok()) << context.status().message();
  if (!context.ok()) return nullptr;
  const std::span<const int32_t> all(tokens);
  for (size_t at = 0; at < all.size(); at += std::min(chunk, all.size())) {
    const Status status = (*context)->read(all.subspan(at, std::min(chunk, all.size() - at)), {});
    EXPECT_TRUE(status.ok()) << status.message();
  }
  const Status status = (*context)->finish_reading({});
  EXPECT_TRUE(status.ok()) << status.message();
  return std::move(context).value();
}

inline std::vector<float> logits_of(Context& context) {
  const auto logits = context.logits();
  EXPECT_TRUE(logits.ok()) << logits.status().message();
  return logits.ok() ? std::vector<float>(logits->begin(), logits->end()) : std::vector<float>();
}

}  // namespace vestige::testing
