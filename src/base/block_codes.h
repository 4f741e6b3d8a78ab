#pragma once

// How numbers of a matrix are stored in a GGUF file: plain, or in blocks of codes with scales of their own. The block
// layouts are those of the ggml project.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "vestige/tensor.h"

namespace vestige {

/// The dtype of a GGUF tensor's number; nothing for one we lack.
std::optional<DType> dtype_of_ggml(uint32_t ggml_type);

/// to[i] = the i-th number. All arithmetic is float32, one product (and one sum) a number.
/// @param dtype  F32, F16, BF16 or one in blocks.
/// @param n  a multiple of the block's n; `from` holds stored_bytes(dtype, n) bytes, of any alignment
void decode_blocks(DType dtype, const std::byte* from, int64_t n, float* to);

}  // namespace vestige
