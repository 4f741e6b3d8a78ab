#pragma once

#include <vector>

#include "vestige/layout.h"

namespace vestige::test {

struct ObserveCase {
  const char* name;
  int64_t n, h, n_rows;
  RowLayout layout;
  int64_t page_rows;
  int64_t first_position;
  double bound;
};

/// Of attend_mass and score_moments.
inline const std::vector<ObserveCase>& observe_cases() {
  constexpr RowLayout kModel = {.d_content = 512, .d_branch = 64, .dtype = DType::kBF16};
  constexpr RowLayout kModelF32 = {.d_content = 512, .d_branch = 64, .dtype = DType::kF32};
  constexpr RowLayout kOdd = {.d_content = 37, .d_branch = 5, .dtype = DType::kBF16};
  constexpr RowLayout kNoBranch = {.d_content = 64, .d_branch = 0, .dtype = DType::kF32};
  constexpr RowLayout kGqa = {.d_content = 24, .d_branch = 40, .dtype = DType::kBF16, .scored_content = false};
  static const std::vector<ObserveCase> kCases = {
      {"one_row", 1, 8, 1, kModel, 64, 0, 1e-6},
      {"causal", 100, 8, 100, kModel, 64, 0, 4e-6},
      {"last_queries", 7, 8, 300, kModel, 128, 293, 4e-6},
      {"past_the_end", 33, 3, 150, kModelF32, 150, 5000, 4e-6},
      {"odd", 61, 5, 90, kOdd, 13, 29, 4e-6},
      {"gqa", 61, 3, 130, kGqa, 64, 69, 4e-6},
      {"no_branch", 300, 2, 260, kNoBranch, 100, 0, 4e-6},
  };
  return kCases;
}

}  // namespace vestige::test
