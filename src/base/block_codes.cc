#include "base/block_codes.h"

#include <cstring>

#include "base/half.h"

namespace vestige {

namespace {

using Byte = const uint8_t*;

template <class T>
T load(Byte at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

float half(Byte at) { return f16_to_f32(load<uint16_t>(at)); }
int low(uint8_t byte) { return byte & 15; }
int high(uint8_t byte) { return byte >> 4; }

// Blocks of 32 with one f16 scale. Nibbles: number j is the low half of byte j, number j + 16 the high half.
void decode_q8_0(Byte block, float* to) {
  const float scale = half(block);
  for (int j = 0; j < 32; ++j) to[j] = scale * static_cast<float>(load<int8_t>(block + 2 + j));
}

void decode_q4_0(Byte block, float* to) {
  const float scale = half(block);
  for (int j = 0; j < 16; ++j) {
    to[j] = scale * static_cast<float>(low(block[2 + j]) - 8);
    to[j + 16] = scale * static_cast<float>(high(block[2 + j]) - 8);
  }
}

void decode_q4_1(Byte block, float* to) {
  const float scale = half(block), least = half(block + 2);
  for (int j = 0; j < 16; ++j) {
    to[j] = scale * static_cast<float>(low(block[4 + j])) + least;
    to[j + 16] = scale * static_cast<float>(high(block[4 + j])) + least;
  }
}

// 256 numbers in 8 groups of 32. Each group has a 6-bit scale and a 6-bit minimum, in units of two f16 numbers; the
// twelve bytes hold the low six bits of groups 0 to 3 (scales, then minima), then the low four bits of groups 4 to 7
// with their upper two bits on top of the bytes before.
void decode_q4_k(Byte block, float* to) {
  const float scale = half(block), least = half(block + 2);
  const Byte packed = block + 4, codes = block + 16;
  for (int group = 0; group < 8; ++group) {
    int s, m;
    if (group < 4) {
      s = packed[group] & 63;
      m = packed[group + 4] & 63;
    } else {
      s = low(packed[group + 4]) | packed[group - 4] >> 6 << 4;
      m = high(packed[group + 4]) | packed[group] >> 6 << 4;
    }
    const float own = scale * static_cast<float>(s), below = least * static_cast<float>(m);
    // Groups 2i and 2i + 1 are the low and the high halves of the same 32 bytes.
    const Byte bytes = codes + group / 2 * 32;
    for (int j = 0; j < 32; ++j) {
      const int code = group % 2 == 0 ? low(bytes[j]) : high(bytes[j]);
      to[group * 32 + j] = own * static_cast<float>(code) - below;
    }
  }
}

// 256 numbers of 6 bits, in two halves of 128: four lower bits in 64 bytes, two upper bits in 32 bytes; a signed byte
// of scale for every 16 numbers, in units of one f16.
void decode_q6_k(Byte block, float* to) {
  const float scale = half(block + 208);
  for (int part = 0; part < 2; ++part) {
    const Byte lower = block + 64 * part, upper = block + 128 + 32 * part, scales = block + 192 + 8 * part;
    for (int j = 0; j < 128; ++j) {
      const int quarter = j / 32, at = j % 32;
      const uint8_t byte = lower[at + quarter % 2 * 32];
      const int code = (quarter < 2 ? low(byte) : high(byte)) | (upper[at] >> 2 * quarter & 3) << 4;
      to[part * 128 + j] = scale * static_cast<float>(load<int8_t>(scales + j / 16)) * static_cast<float>(code - 32);
    }
  }
}

}  // namespace

std::optional<DType> dtype_of_ggml(uint32_t ggml_type) {
  switch (ggml_type) {
    case 0:
      return DType::kF32;
    case 1:
      return DType::kF16;
    case 2:
      return DType::kQ4_0;
    case 3:
      return DType::kQ4_1;
    case 8:
      return DType::kQ8_0;
    case 12:
      return DType::kQ4K;
    case 14:
      return DType::kQ6K;
    case 30:
      return DType::kBF16;
    default:
      return std::nullopt;
  }
}

void decode_blocks(DType dtype, const std::byte* from, int64_t n, float* to) {
  const DTypeBlock block = dtype_block(dtype);
  const auto* at = reinterpret_cast<Byte>(from);
  for (int64_t done = 0; done < n; done += block.n, at += block.n_bytes, to += block.n) {
    switch (dtype) {
      case DType::kF32:
        *to = load<float>(at);
        break;
      case DType::kF16:
        *to = half(at);
        break;
      case DType::kBF16:
        *to = bf16_to_f32(load<uint16_t>(at));
        break;
      case DType::kQ8_0:
        decode_q8_0(at, to);
        break;
      case DType::kQ4_0:
        decode_q4_0(at, to);
        break;
      case DType::kQ4_1:
        decode_q4_1(at, to);
        break;
      case DType::kQ4K:
        decode_q4_k(at, to);
        break;
      case DType::kQ6K:
        decode_q6_k(at, to);
        break;
      default:
        break;
    }
  }
}

}  // namespace vestige
