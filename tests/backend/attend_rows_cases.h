#pragma once

#include <vector>

#include "vestige/layout.h"

namespace vestige::test {

enum class RowIds { kNone, kSparse };

struct AttendRowsCase {
  const char* name;
  int64_t b, h, n_rows;
  RowLayout layout;
  int64_t page_rows;
  bool interleaved;
  RowIds ids;
  double bound;  ///< of out; lse and max get ten times it (they are sums of hundreds of products)
};

inline const std::vector<AttendRowsCase>& attend_rows_cases() {
  constexpr RowLayout kModel = {.d_content = 512, .d_branch = 64, .dtype = DType::kBF16};
  constexpr RowLayout kModelF32 = {.d_content = 512, .d_branch = 64, .dtype = DType::kF32};
  constexpr RowLayout kOdd = {.d_content = 37, .d_branch = 5, .dtype = DType::kBF16};
  constexpr RowLayout kOddF32 = {.d_content = 19, .d_branch = 3, .dtype = DType::kF32};
  constexpr RowLayout kNoBranch = {.d_content = 64, .d_branch = 0, .dtype = DType::kBF16};
  constexpr RowLayout kGqa = {.d_content = 64, .d_branch = 64, .dtype = DType::kBF16, .scored_content = false};
  constexpr RowLayout kOddGqa = {.d_content = 37, .d_branch = 12, .dtype = DType::kF32, .scored_content = false};
  static const std::vector<AttendRowsCase> kCases = {
      {"empty", 1, 8, 0, kModel, 4096, false, RowIds::kNone, 0},
      {"one_row", 1, 8, 1, kModel, 4096, false, RowIds::kNone, 1e-6},
      {"two_left", 1, 8, 34, kModel, 4096, false, RowIds::kNone, 2e-6},
      {"three_left", 1, 8, 71, kModel, 4096, false, RowIds::kNone, 2e-6},
      {"model", 1, 8, 1000, kModel, 256, false, RowIds::kNone, 2e-6},
      {"model_32_heads", 1, 32, 321, kModel, 4096, false, RowIds::kNone, 2e-6},
      {"model_arena", 1, 8, 700, kModel, 700, true, RowIds::kNone, 2e-6},
      {"model_f32", 1, 8, 513, kModelF32, 128, false, RowIds::kNone, 2e-6},
      {"model_ids", 1, 8, 900, kModel, 128, false, RowIds::kSparse, 2e-6},
      {"batch_ids", 3, 5, 130, kModel, 64, false, RowIds::kSparse, 2e-6},
      {"odd", 2, 3, 257, kOdd, 100, false, RowIds::kNone, 2e-6},
      {"odd_f32_arena", 1, 9, 65, kOddF32, 65, true, RowIds::kSparse, 2e-6},
      {"no_branch", 1, 1, 33, kNoBranch, 16, false, RowIds::kNone, 2e-6},
      {"gqa", 1, 4, 700, kGqa, 256, false, RowIds::kNone, 2e-6},
      {"gqa_arena_ids", 2, 9, 130, kGqa, 130, true, RowIds::kSparse, 2e-6},
      {"gqa_odd", 1, 3, 257, kOddGqa, 100, false, RowIds::kNone, 2e-6},
      {"long", 1, 8, 9000, kModel, 4096, false, RowIds::kNone, 2e-6},
  };
  return kCases;
}

}  // namespace vestige::test
