#pragma once

// config.json, read with a range for every number: an error names file, key, value and range.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "vestige/status.h"

namespace vestige {

struct ConfigNode;  // a JSON object; nlohmann stays in config.cc

/// A number's closed range, and what it is when the key is absent or null.
struct IntKey {
  const char* key;
  int64_t min, max;
  int64_t absent = kRequired;
  const char* alias = nullptr;  ///< a second name for the same key
  static constexpr int64_t kRequired = INT64_MIN;
};
struct RealKey {
  const char* key;
  double min, max;
  double absent = kRequired;
  static constexpr double kRequired = -1e300;
};

/// A JSON object with its name for messages. Cheap to copy. Every read returns DataLoss for a missing key, a
/// wrong type or a value out of range.
class Config {
 public:
  /// @param where names the file in messages.
  static Result<Config> parse(std::string_view json_text, const std::string& where);
  /// Reads `dir`/config.json.
  static Result<Config> read(const std::string& dir);

  /// True if the key is there and not null.
  bool has(const char* key) const;
  /// True if the key is there and null.
  bool is_null(const char* key) const;
  Result<int64_t> integer(const IntKey& want) const;
  Result<double> real(const RealKey& want) const;
  Result<bool> flag(const char* key, bool absent) const;
  Result<std::string> text(const char* key, const std::string& absent) const;
  /// An integer alone, a list of them, or nothing (an empty list).
  Result<std::vector<int64_t>> integers(const IntKey& want) const;
  /// A list of reals, each in the range; empty if the key is absent.
  Result<std::vector<double>> reals(const RealKey& want) const;
  Result<std::vector<std::string>> texts(const char* key) const;
  Result<Config> section(const char* key) const;
  const std::string& where() const { return where_; }

 private:
  std::shared_ptr<const ConfigNode> node_;
  std::string where_;
};

}  // namespace vestige
