#pragma once

// Views of numbers in memory: a pointer, a type, a shape, strides and the device that owns the bytes.
// A view owns nothing; whoever makes it keeps the memory alive for as long as queued work may read it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

namespace vestige {

/// From kQ8_0 on, numbers of a weight's row are stored in blocks of codes with scales of their own, as GGUF files have
/// them (docs/formats.md). A view of such a matrix has rows and strides of whole blocks; only ops that say so take it.
enum class DType : uint8_t { kF32, kF16, kBF16, kF8E4M3, kI32, kI64, kU8, kQ8_0, kQ4_0, kQ4_1, kQ4K, kQ6K };

/// Bytes of one element; 0 for a dtype in blocks.
size_t dtype_bytes(DType dtype);
/// Name as safetensors spells it: "F32", "F16", "BF16", "F8_E4M3", "I32", "I64", "U8"; as GGUF does: "Q8_0", "Q4_0",
/// "Q4_1", "Q4_K", "Q6_K".
const char* dtype_name(DType dtype);

/// `n` consecutive numbers of a row are stored in `n_bytes` bytes; a plain number is a block of one.
struct DTypeBlock {
  int64_t n, n_bytes;
  bool plain() const { return n == 1; }
};
DTypeBlock dtype_block(DType dtype);
/// Bytes of n_elements, which are whole blocks.
inline int64_t stored_bytes(DType dtype, int64_t n_elements) {
  const DTypeBlock block = dtype_block(dtype);
  return n_elements / block.n * block.n_bytes;
}

enum class DeviceKind : uint8_t { kCpu, kCuda };

inline constexpr int kMaxRank = 4;

/// Strided view of at most four dimensions. Strides count elements; the last one is 1 unless said
/// otherwise by the op that takes the view. `Void` is `void` (writable) or `const void`.
template <class Void>
struct BasicTensorView {
  Void* data = nullptr;
  DType dtype = DType::kF32;
  DeviceKind device = DeviceKind::kCpu;
  int rank = 0;
  std::array<int64_t, kMaxRank> shape{};
  std::array<int64_t, kMaxRank> stride{};

  BasicTensorView() = default;

  /// Dense row-major view.
  BasicTensorView(Void* data_in, DType dtype_in, std::initializer_list<int64_t> shape_in,
                  DeviceKind device_in = DeviceKind::kCpu)
      : data(data_in), dtype(dtype_in), device(device_in) {
    for (int64_t n : shape_in) {
      if (rank < kMaxRank) shape[static_cast<size_t>(rank++)] = n;
    }
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; --i) {
      stride[static_cast<size_t>(i)] = step;
      step *= shape[static_cast<size_t>(i)];
    }
  }

  /// A writable view reads as a const one; never the other way round.
  template <class Other>
  requires(std::is_const_v<Void> && !std::is_const_v<Other>)
      BasicTensorView(const BasicTensorView<Other>& other)  // NOLINT: implicit on purpose
      : data(other.data),
        dtype(other.dtype),
        device(other.device),
        rank(other.rank),
        shape(other.shape),
        stride(other.stride) {}

  bool empty() const { return data == nullptr || n_elements() == 0; }
  int64_t dim(int i) const { return shape[static_cast<size_t>(i)]; }
  int64_t n_elements() const {
    if (rank == 0) return 0;
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dim(i);
    return n;
  }
  bool contiguous() const {
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (dim(i) != 1 && stride[static_cast<size_t>(i)] != step) return false;
      step *= dim(i);
    }
    return true;
  }

  /// The elements as T; T must have the width of the dtype (checked by the ops, not here).
  template <class T>
  auto as() const {
    using Ptr = std::conditional_t<std::is_const_v<Void>, const T*, T*>;
    return static_cast<Ptr>(data);
  }

  /// Rows [begin, begin + count) of dimension 0.
  BasicTensorView slice(int64_t begin, int64_t count) const {
    BasicTensorView v = *this;
    using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
    v.data = static_cast<Byte*>(data) + stored_bytes(dtype, begin * stride[0]);
    v.shape[0] = count;
    return v;
  }
};

using TensorView = BasicTensorView<void>;
using ConstTensorView = BasicTensorView<const void>;

/// "[3, 4] F32" for messages.
std::string describe(const ConstTensorView& view);

}  // namespace vestige
