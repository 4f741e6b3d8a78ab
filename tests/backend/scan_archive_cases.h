#pragma once

#include <vector>

#include "vestige/tensor.h"

namespace vestige::test {

struct ScanArchiveCase {
  const char* name;
  int64_t b, h, n_rows, page_rows, d_content;
  int32_t d_branch, rank;
  DType dtype;
  int64_t capacity;
  float z;
  float threshold;  ///< of every head but head 0, which gets +inf; NaN = a different one each
};

inline const std::vector<ScanArchiveCase>& scan_archive_cases() {
  constexpr float kInf = __builtin_inff();
  static const std::vector<ScanArchiveCase> kCases = {
      {"empty", 1, 8, 0, 4096, 512, 64, 64, DType::kBF16, 16, 8.0f, 0.5f},
      {"one_row", 1, 8, 1, 4096, 512, 64, 64, DType::kBF16, 16, 8.0f, -kInf},
      {"model", 1, 8, 3000, 1024, 512, 64, 64, DType::kBF16, 3000, 2.0f, 3.5f},
      {"model_32_heads", 1, 32, 700, 4096, 512, 64, 64, DType::kBF16, 700, 0.5f, 6.0f},
      {"overflow", 1, 8, 2000, 512, 512, 64, 64, DType::kBF16, 7, 2.0f, 3.0f},
      {"all_fire", 2, 3, 300, 100, 64, 16, 8, DType::kBF16, 300, 1.0f, -kInf},
      {"none_fires", 2, 3, 300, 100, 64, 16, 8, DType::kBF16, 300, 1.0f, kInf},
      {"odd_f32", 2, 9, 1100, 77, 21, 5, 3, DType::kF32, 1100, 1.5f, 2.0f},
      {"full_rank", 1, 2, 200, 64, 16, 4, 16, DType::kBF16, 200, 8.0f, 2.0f},
      {"no_branch", 1, 2, 200, 64, 32, 0, 8, DType::kBF16, 200, 0.0f, 2.0f},
      {"no_room", 1, 2, 200, 64, 32, 4, 8, DType::kBF16, 0, 0.0f, 2.0f},
  };
  return kCases;
}

struct BestRowsCase {
  const char* name;
  int64_t n_queries, n_rows, page_rows;
  int32_t d_content, d_branch;
  DType dtype;
  bool mask;
  bool scored_content = true;
};

inline const std::vector<BestRowsCase>& best_rows_cases() {
  static const std::vector<BestRowsCase> kCases = {
      {"no_rows", 3, 0, 64, 16, 4, DType::kF32, false},      {"one", 1, 1, 64, 16, 4, DType::kBF16, false},
      {"model", 70, 700, 256, 512, 64, DType::kBF16, true},  {"odd", 129, 515, 100, 21, 3, DType::kF32, true},
      {"no_branch", 5, 257, 64, 32, 0, DType::kBF16, false}, {"gqa", 70, 300, 64, 24, 40, DType::kBF16, true, false},
  };
  return kCases;
}

}  // namespace vestige::test
