#pragma once

#include <vector>

#include "vestige/tensor.h"

namespace vestige::test {

struct RotatedCase {
  const char* name;
  int64_t n, d, stride;
  int32_t bits;
  DType dtype, scale_dtype;
};

inline const std::vector<RotatedCase>& rotated_cases() {
  static const std::vector<RotatedCase> kCases = {
      {"none", 0, 64, 64, 2, DType::kF32, DType::kF16},
      {"one", 1, 64, 64, 2, DType::kF32, DType::kF16},
      {"narrow", 5, 8, 9, 3, DType::kF32, DType::kF32},
      {"llama", 333, 128, 128, 2, DType::kBF16, DType::kF16},
      {"three_bits", 65, 128, 200, 3, DType::kF32, DType::kF16},
      {"four_bits", 64, 64, 64, 4, DType::kBF16, DType::kF32},
      {"latent", 70, 512, 576, 2, DType::kBF16, DType::kF16},
      {"widest", 3, 4096, 4096, 4, DType::kF32, DType::kF32},
  };
  return kCases;
}

}  // namespace vestige::test
