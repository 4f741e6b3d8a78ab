#pragma once

// How numbers of a matrix are stored in a GGUF file: plain, or in blocks of codes with scales of their own. The block
// layouts are those of the ggml project.

#include <cstddef>
#include <cstdint>
#include <optional>

namespace vestige {

enum class BlockType : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1, kQ4K, kQ6K };

/// A block holds `n` consecutive numbers of a row in `n_bytes` bytes; a plain number is a block of one.
struct BlockShape {
  const char* name;
  int64_t n, n_bytes;
};
BlockShape block_shape(BlockType type);

/// The type of a GGUF tensor's number; nothing for one we lack.
std::optional<BlockType> block_type_of(uint32_t ggml_type);

/// to[i] = the i-th number. All arithmetic is float32, one product (and one sum) a number.
/// @param n a multiple of the block's n; `from` holds n / block.n * block.n_bytes bytes, of any alignment
void decode_blocks(BlockType type, const std::byte* from, int64_t n, float* to);

}  // namespace vestige
