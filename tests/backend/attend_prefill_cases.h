#pragma once

#include <vector>

#include "vestige/layout.h"

namespace vestige::test {

struct AttendPrefillCase {
  const char* name;
  int64_t position, t, h, d_nope, d_v;
  RowLayout layout;
  DType w_dtype;
  int64_t page_rows;
  double bound;
};

inline const std::vector<AttendPrefillCase>& attend_prefill_cases() {
  constexpr RowLayout kSmall = {.d_content = 64, .d_branch = 16, .dtype = DType::kBF16};
  constexpr RowLayout kSmallF32 = {.d_content = 64, .d_branch = 16, .dtype = DType::kF32};
  constexpr RowLayout kOdd = {.d_content = 21, .d_branch = 3, .dtype = DType::kF32};
  constexpr RowLayout kNoBranch = {.d_content = 32, .d_branch = 0, .dtype = DType::kBF16};
  static const std::vector<AttendPrefillCase> kCases = {
      {"one_token", 0, 1, 2, 16, 16, kSmall, DType::kBF16, 4096, 1e-5},
      {"no_query", 7, 0, 2, 16, 16, kSmall, DType::kBF16, 4096, 0},
      {"start", 0, 300, 3, 32, 24, kSmall, DType::kBF16, 64, 1e-5},
      {"inside", 517, 70, 2, 32, 24, kSmallF32, DType::kF32, 100, 1e-5},
      {"odd", 127, 131, 9, 7, 5, kOdd, DType::kF32, 33, 1e-5},
      {"no_branch", 255, 2, 1, 16, 8, kNoBranch, DType::kBF16, 4096, 1e-5},
      {"two_spans", 2040, 20, 1, 16, 16, kSmall, DType::kF32, 4096, 1e-5},
  };
  return kCases;
}

}  // namespace vestige::test
