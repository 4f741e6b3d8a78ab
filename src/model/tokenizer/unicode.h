#pragma once

// UTF-8 and the character classes that split patterns are made of.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vestige {

// Bits of a character's class. A code point has at most one of the general categories; kSpace and kHan are properties.
enum CharClass : uint8_t {
  kUpper = 1,        // Lu, Lt
  kLower = 2,        // Ll
  kOtherLetter = 4,  // Lm, Lo
  kMark = 8,         // M
  kNumber = 16,      // N
  kSpace = 32,       // White_Space
  kHan = 64,         // Script=Han
  kLetter = kUpper | kLower | kOtherLetter,
};

// Sorted by code point; see the generated file.
extern const uint32_t kUnicodeRanges[];
extern const size_t kUnicodeRangeCount;

/// Class bits of a code point below 0x110000, by a search of the ranges.
uint8_t search_char_class(uint32_t code_point);

inline constexpr std::array<uint8_t, 128> kAsciiClasses = [] {
  std::array<uint8_t, 128> classes{};
  for (size_t c = 0; c < 128; ++c) {
    if (c >= 'A' && c <= 'Z') classes[c] = kUpper;
    if (c >= 'a' && c <= 'z') classes[c] = kLower;
    if (c >= '0' && c <= '9') classes[c] = kNumber;
    if (c == ' ' || (c >= '\t' && c <= '\r')) classes[c] = kSpace;
  }
  return classes;
}();

/// The same; most text is ASCII.
inline uint8_t char_class(uint32_t code_point) {
  return code_point < 128 ? kAsciiClasses[code_point] : search_char_class(code_point);
}

struct Utf8Char {
  uint32_t code_point;
  uint32_t n_bytes;  // 1 where invalid
};

/// U+FFFD, whose class is "none", for one byte that begins no valid character.
inline constexpr uint32_t kReplacement = 0xfffd;

Utf8Char read_non_ascii(std::string_view text, size_t at);

/// The character at text[at], at < text.size().
inline Utf8Char read_utf8(std::string_view text, size_t at) {
  const uint8_t first = static_cast<uint8_t>(text[at]);
  return first < 0x80 ? Utf8Char{first, 1} : read_non_ascii(text, at);
}

/// How the bytes at text[at] go on: the length of a whole valid character (`whole`), or of the longest prefix of one.
struct Utf8Prefix {
  uint32_t n_bytes;  // at least 1
  bool whole;
  bool cut;  // the text ends before it could be whole or wrong
};
Utf8Prefix match_utf8(std::string_view text, size_t at);

}  // namespace vestige
