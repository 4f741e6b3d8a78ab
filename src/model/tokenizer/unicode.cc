#include "model/tokenizer/unicode.h"

#include <algorithm>

namespace vestige {

uint8_t search_char_class(uint32_t code_point) {
  const uint32_t* const end = kUnicodeRanges + kUnicodeRangeCount;
  const uint32_t* const after = std::upper_bound(kUnicodeRanges, end, code_point << 8 | 0xffu);
  return static_cast<uint8_t>(after[-1] & 0xffu);
}

namespace {

// Table 3-7 of the Unicode standard: the second byte's range excludes overlong forms, surrogates and > U+10FFFF.
struct Lead {
  uint32_t n_bytes;
  uint8_t low, high;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2 || byte > 0xf4) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte < 0xf0) {
    return {3, static_cast<uint8_t>(byte == 0xe0 ? 0xa0 : 0x80), static_cast<uint8_t>(byte == 0xed ? 0x9f : 0xbf)};
  }
  return {4, static_cast<uint8_t>(byte == 0xf0 ? 0x90 : 0x80), static_cast<uint8_t>(byte == 0xf4 ? 0x8f : 0xbf)};
}

}  // namespace

Utf8Prefix match_utf8(std::string_view text, size_t at) {
  const Lead lead = lead_of(static_cast<uint8_t>(text[at]));
  if (lead.n_bytes == 0) return {1, false, false};
  for (uint32_t i = 1; i < lead.n_bytes; ++i) {
    if (at + i >= text.size()) return {i, false, true};
    const uint8_t byte = static_cast<uint8_t>(text[at + i]);
    const bool good = i == 1 ? byte >= lead.low && byte <= lead.high : (byte & 0xc0) == 0x80;
    if (!good) return {i, false, false};
  }
  return {lead.n_bytes, true, false};
}

Utf8Char read_non_ascii(std::string_view text, size_t at) {
  const Utf8Prefix prefix = match_utf8(text, at);
  if (!prefix.whole) return {kReplacement, 1};
  uint32_t code_point = static_cast<uint8_t>(text[at]) & (0x7fu >> prefix.n_bytes);
  for (uint32_t i = 1; i < prefix.n_bytes; ++i) {
    code_point = code_point << 6 | (static_cast<uint8_t>(text[at + i]) & 0x3fu);
  }
  return {code_point, prefix.n_bytes};
}

}  // namespace vestige
