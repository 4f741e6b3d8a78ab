#pragma once

#include <vector>

#include "vestige/tensor.h"

namespace vestige {

struct MatmulCase {
  int64_t m, n, k;
  DType dtype;
  int64_t pad = 0;  // floats after each row of x and out
  bool accumulate = false;
};

/// Of |out| and its largest element: float32 sums of up to 2304 products.
inline constexpr double kMatmulBound = 2e-6;

inline constexpr MatmulCase kMatmulCases[] = {
    {0, 5, 7, DType::kBF16},
    {3, 0, 7, DType::kBF16},
    {2, 3, 0, DType::kBF16},
    {1, 1, 1, DType::kF32},
    {1, 320, 320, DType::kBF16},
    {2, 17, 33, DType::kF16, 3},
    {3, 131, 257, DType::kF8E4M3},
    {5, 9, 129, DType::kF32, 1, true},
    {7, 40, 63, DType::kBF16, 0, true},
    {8, 129, 1024, DType::kBF16},
    {1, 2051, 600, DType::kF32},  // more than the largest piece
    {9, 129, 320, DType::kBF16},
    {10, 1, 1, DType::kF32},
    {64, 128, 1024, DType::kBF16},
    {65, 130, 31, DType::kF16, 5},
    {130, 257, 300, DType::kF8E4M3, 2, true},
    {129, 320, 96, DType::kF32, 7, true},
    {12, 3, 0, DType::kBF16},
    {200, 320, 2304, DType::kBF16},
    {0, 5, 32, DType::kQ8_0},
    {2, 3, 0, DType::kQ4K},
    {1, 1, 32, DType::kQ4_1},
    {1, 576, 576, DType::kQ4_1},
    {1, 131, 96, DType::kQ8_0, 3},
    {3, 17, 32, DType::kQ4_0, 1, true},
    {5, 9, 1504, DType::kQ4_1, 0, true},
    {7, 40, 256, DType::kQ4K},
    {8, 129, 768, DType::kQ6K, 2, true},
    {1, 33, 1024, DType::kQ6K},
    {1, 2051, 512, DType::kQ4K},  // more than the largest piece
    {9, 129, 96, DType::kQ8_0, 5},
    {65, 130, 32, DType::kQ4_0},
    {12, 3, 576, DType::kQ4_1, 1, true},
    {130, 257, 512, DType::kQ4K, 2, true},
    {70, 67, 256, DType::kQ6K},
};

/// Lists of products: nothing, one, decode projections of mixed shapes, both paths and empty products in one list.
inline const std::vector<std::vector<MatmulCase>> kMatmulListCases = {
    {},
    {{1, 1, 1, DType::kF32}},
    {{1, 320, 320, DType::kBF16}, {1, 64, 320, DType::kBF16}, {1, 5, 320, DType::kBF16}, {1, 320, 64, DType::kBF16}},
    {{3, 0, 7, DType::kBF16}, {8, 129, 257, DType::kF16, 3}, {0, 5, 7, DType::kF32}, {2, 3, 0, DType::kBF16}},
    {{1, 1030, 96, DType::kF8E4M3},
     {70, 130, 300, DType::kBF16, 1, true},
     {7, 9, 33, DType::kF32, 2, true},
     {130, 257, 31, DType::kF16}},
    {{1, 576, 576, DType::kQ4_1}, {1, 192, 576, DType::kQ8_0}, {1, 5, 256, DType::kQ6K}, {20, 30, 256, DType::kQ4K}},
};

}  // namespace vestige
