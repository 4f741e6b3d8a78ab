#include "model/tokenizer/byte_level.h"

#include <array>
#include <cstdint>

#include "model/tokenizer/unicode.h"

namespace vestige {

namespace {

// GPT-2's table: the bytes that Latin-1 prints stand for themselves, the other 68 for U+0100 onwards, in order.
constexpr bool printable(int b) { return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae; }

constexpr std::array<int16_t, 0x144> make_byte_of() {
  std::array<int16_t, 0x144> byte_of{};
  for (int16_t& b : byte_of) b = -1;
  size_t other = 0x100;
  for (int b = 0; b < 256; ++b) byte_of[printable(b) ? static_cast<size_t>(b) : other++] = static_cast<int16_t>(b);
  return byte_of;
}
constexpr std::array<int16_t, 0x144> kByteOf = make_byte_of();

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

}  // namespace

std::optional<std::string> bytes_of_name(std::string_view name) {
  std::string bytes;
  for (size_t at = 0; at < name.size();) {
    const Utf8Char c = read_utf8(name, at);
    if (c.code_point >= kByteOf.size() || kByteOf[c.code_point] < 0) return std::nullopt;
    bytes += static_cast<char>(kByteOf[c.code_point]);
    at += c.n_bytes;
  }
  return bytes;
}

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  std::string bytes;
  uint32_t word = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const int digit = i >= text.size() - padding ? 0 : base64_digit(text[i]);
    if (digit < 0) return std::nullopt;
    word = word << 6 | static_cast<uint32_t>(digit);
    if (i % 4 != 3) continue;
    for (int shift = 16; shift >= 0; shift -= 8) bytes += static_cast<char>(word >> shift & 0xff);
    word = 0;
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace vestige
