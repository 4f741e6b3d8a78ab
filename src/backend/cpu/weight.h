#pragma once

// A weight matrix as kernels see it: rows of one stored dtype.

#include "vestige/tensor.h"

namespace vestige::cpu {

// Stored element types; the dtype picks one at run time.
struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};
struct F8 {
  uint8_t bits;
};

// Stored blocks of codes (base/block_codes.h has the layouts).
template <DType kStored, int64_t kNumbersIn, int64_t kBytesIn>
struct Blocks {
  static constexpr DType kDType = kStored;
  static constexpr int64_t kNumbers = kNumbersIn, kBytes = kBytesIn;
};
using Q8_0 = Blocks<DType::kQ8_0, 32, 34>;
using Q4_0 = Blocks<DType::kQ4_0, 32, 18>;
using Q4_1 = Blocks<DType::kQ4_1, 32, 20>;
using Q4K = Blocks<DType::kQ4K, 256, 144>;
using Q6K = Blocks<DType::kQ6K, 256, 210>;

/// Columns and rows that share one scale of an f8e4m3 weight.
inline constexpr int64_t kScaleBlock = 128;

struct Weight {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t n = 0, k = 0, stride = 0;
  const float* scale = nullptr;  ///< f8e4m3 only
  int64_t scale_stride = 0;

  static Weight of(const ConstTensorView& w, const ConstTensorView& scale = {}) {
    return {w.data, w.dtype, w.dim(0), w.dim(1), w.stride[0], scale.as<float>(), scale.rank == 2 ? scale.dim(1) : 0};
  }
  int64_t row_bytes() const { return stored_bytes(dtype, k); }
  bool in_blocks() const { return !dtype_block(dtype).plain(); }
  /// Of a weight in blocks of kind B: the block that holds number c of a row.
  template <class B>
  const uint8_t* block_at(int64_t row, int64_t c = 0) const {
    return static_cast<const uint8_t*>(data) + (row * (stride / B::kNumbers) + c / B::kNumbers) * B::kBytes;
  }
};

/// Calls f(T{}) with the stored element type of a plain `dtype`.
template <class F>
void with_element(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kBF16:
      f(Bf16{});
      break;
    case DType::kF16:
      f(F16{});
      break;
    case DType::kF8E4M3:
      f(F8{});
      break;
    default:
      f(float{});
      break;
  }
}

/// Calls f(B{}) with the kind of block of `dtype`.
template <class F>
void with_blocks(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kQ8_0:
      f(Q8_0{});
      break;
    case DType::kQ4_0:
      f(Q4_0{});
      break;
    case DType::kQ4_1:
      f(Q4_1{});
      break;
    case DType::kQ4K:
      f(Q4K{});
      break;
    default:
      f(Q6K{});
      break;
  }
}

}  // namespace vestige::cpu
