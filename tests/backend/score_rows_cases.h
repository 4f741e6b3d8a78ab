#pragma once

#include <vector>

#include "vestige/tensor.h"

namespace vestige::test {

struct ScoreRowsCase {
  const char* name;
  int64_t n, d, stride;
  int32_t bandwidth;
  DType dtype;
  double bound;
};

inline const std::vector<ScoreRowsCase>& score_rows_cases() {
  static const std::vector<ScoreRowsCase> kCases = {
      {"one_row", 1, 64, 64, 1, DType::kBF16, 1e-5},    {"two_rows", 2, 3, 3, 1, DType::kF32, 1e-5},
      {"block", 4096, 4, 4, 16, DType::kBF16, 1e-5},    {"odd", 1021, 7, 11, 5, DType::kF32, 1e-5},
      {"all_bins", 64, 64, 64, 32, DType::kBF16, 1e-5}, {"run_border", 513, 8, 8, 16, DType::kF32, 1e-5},
  };
  return kCases;
}

}  // namespace vestige::test
