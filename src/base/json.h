#pragma once

// JSON from files nobody vouches for, on top of nlohmann/json, which by itself keeps the last of two equal keys,
// overflows the stack on deep nesting and throws. Never included from include/vestige.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "vestige/status.h"

namespace vestige {

struct JsonLimits {
  size_t max_bytes = size_t{1} << 28;   ///< of the text: 256 MiB
  size_t max_values = size_t{1} << 24;  ///< all values together, containers included: 16 bytes each and more
  int max_depth = 64;                   ///< nested arrays and objects
};

/// Parses one JSON value and nothing after it; UTF-8 is checked.
/// @return DataLoss with the byte offset for wrong syntax, a key twice in one object, or more than a limit;
///         OutOfMemory. Throws nothing.
Result<nlohmann::json> parse_json(std::string_view text, const JsonLimits& limits = {});

/// parse_json of a file's bytes, the path in front of each message. Also NotFound, IoError.
Result<nlohmann::json> read_json(const std::string& path, const JsonLimits& limits = {});

/// The member `key` of `object`, or null if there is none, it is null, or `object` is no object.
const nlohmann::json* json_member(const nlohmann::json& object, const char* key);

/// The integer `value`, if it is one (1.0 is not) and in [min, max].
std::optional<int64_t> json_int(const nlohmann::json& value, int64_t min, int64_t max);

}  // namespace vestige
