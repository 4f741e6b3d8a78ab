#pragma once

// The fixtures that make_fixtures.py writes, and folders for files of our own making.

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "vestige/tokenizer.h"

namespace vestige::test {

inline const std::string kFixtures = VESTIGE_SOURCE_DIR "/tests/tokenizer";
inline const std::string kNano = VESTIGE_SOURCE_DIR "/models/nano";

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Case {
  std::string text;
  std::vector<int32_t> ids;
};

/// Layout: see make_fixtures.py. Empty if the file is missing or cut.
inline std::vector<Case> read_cases(const std::string& name) {
  const std::string file = slurp(VESTIGE_TOKENIZER_CASES "/" + name);
  size_t at = 0;
  const auto take = [&](void* to, size_t n) {
    if (n == 0 || n > file.size() - at) return n == 0;
    std::memcpy(to, file.data() + at, n);
    at += n;
    return true;
  };
  uint32_t n = 0, size = 0;
  if (!take(&n, 4)) return {};
  std::vector<Case> cases(n);
  for (Case& c : cases) {
    if (!take(&size, 4) || size > file.size()) return {};
    c.text.resize(size);
    if (!take(c.text.data(), size) || !take(&size, 4) || size > file.size()) return {};
    std::vector<uint16_t> ids(size);
    if (!take(ids.data(), 2 * size)) return {};
    c.ids.assign(ids.begin(), ids.end());
  }
  return cases;
}

/// A folder that goes when the object goes.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "vestige_tokenizer_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name, std::ios::binary | std::ios::trunc) << text;
  }

 private:
  std::string path_;
};

/// Appended ids of a text, checked to succeed by the caller's comparison: {-1} on error.
inline std::vector<int32_t> encoded(const Tokenizer& tokenizer, std::string_view text,
                                    AddedTokens added = AddedTokens::kRecognised) {
  std::vector<int32_t> ids;
  if (!tokenizer.encode(text, added, &ids).ok()) return {-1};
  return ids;
}

inline std::string decoded(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string text;
  if (!tokenizer.decode(ids, &text).ok()) return "(error)";
  return text;
}

}  // namespace vestige::test
