#pragma once

#include <vector>

#include "vestige/tensor.h"

namespace vestige::test {

/// Codes of `n_rows` rows: `bits` of stage 0, coordinate by coordinate, then zeros; `refine` of stage 1.
struct CodesCase {
  const char* name;
  int64_t b, h, n_groups, n_rows, page_rows;
  int32_t d_content, d_branch;
  DType dtype;
  int64_t rank;
  std::vector<int32_t> bits, refine;
  int64_t capacity;
};

inline const std::vector<CodesCase>& codes_cases() {
  const auto repeated = [](std::vector<std::pair<int, int32_t>> runs) {
    std::vector<int32_t> bits;
    for (const auto& [n, value] : runs) bits.insert(bits.end(), static_cast<size_t>(n), value);
    return bits;
  };
  static const std::vector<CodesCase> kCases = {
      {"plain", 1, 4, 2, 256, 128, 24, 8, DType::kF32, 32, repeated({{4, 4}, {8, 2}, {8, 1}}), {}, 256},
      {"two_stages", 1, 8, 8, 300, 300, 24, 8, DType::kBF16, 20, repeated({{2, 8}, {6, 3}}), repeated({{32, 2}}), 300},
      {"odd", 2, 3, 3, 333, 77, 19, 3, DType::kF32, 7, {8, 7, 6, 5, 4, 3, 2, 1}, {0, 0, 1, 5, 7}, 333},
      {"no_branch", 1, 6, 2, 100, 64, 21, 0, DType::kBF16, 21, repeated({{21, 3}}), repeated({{21, 1}}), 100},
      {"one_group", 1, 9, 1, 50, 16, 16, 4, DType::kF32, 5, {4, 4}, {}, 50},
      {"one_row", 1, 5, 5, 1, 64, 16, 4, DType::kBF16, 20, {1, 1, 1}, {8}, 1},
      {"no_bits", 1, 4, 2, 40, 40, 16, 4, DType::kF32, 20, {}, {}, 40},
      {"no_rows", 1, 4, 2, 0, 64, 16, 4, DType::kF32, 20, {2, 2}, {3}, 4},
      {"wide", 2, 12, 4, 700, 512, 96, 16, DType::kBF16, 64, repeated({{10, 5}, {20, 3}, {40, 2}, {42, 1}}),
       repeated({{60, 3}, {52, 1}}), 700},
      {"overflow", 1, 8, 4, 400, 128, 24, 8, DType::kBF16, 32, repeated({{8, 4}, {24, 1}}), repeated({{32, 1}}), 9},
  };
  return kCases;
}

}  // namespace vestige::test
