#pragma once

// The alphabet of ByteLevel vocabularies: each byte as one printable character.

#include <optional>
#include <string>
#include <string_view>

namespace vestige {

/// The bytes that `name` (UTF-8) stands for; nullopt if a character of it is not in the alphabet.
std::optional<std::string> bytes_of_name(std::string_view name);

/// Standard base64 with padding; nullopt for anything else.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace vestige
