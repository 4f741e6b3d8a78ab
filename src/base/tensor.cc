#include "vestige/tensor.h"

namespace vestige {

size_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kF8E4M3:
    case DType::kU8:
      return 1;
    case DType::kI64:
      return 8;
    default:
      return 0;
  }
}

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
    case DType::kF8E4M3:
      return "F8_E4M3";
    case DType::kI32:
      return "I32";
    case DType::kI64:
      return "I64";
    case DType::kU8:
      return "U8";
    case DType::kQ8_0:
      return "Q8_0";
    case DType::kQ4_0:
      return "Q4_0";
    case DType::kQ4_1:
      return "Q4_1";
    case DType::kQ4K:
      return "Q4_K";
    case DType::kQ6K:
      return "Q6_K";
  }
  return "?";
}

DTypeBlock dtype_block(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
      return {32, 34};
    case DType::kQ4_0:
      return {32, 18};
    case DType::kQ4_1:
      return {32, 20};
    case DType::kQ4K:
      return {256, 144};
    case DType::kQ6K:
      return {256, 210};
    default:
      return {1, static_cast<int64_t>(dtype_bytes(dtype))};
  }
}

std::string describe(const ConstTensorView& view) {
  std::string text = "[";
  for (int i = 0; i < view.rank; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(view.dim(i));
  }
  return text + "] " + dtype_name(view.dtype);
}

}  // namespace vestige
