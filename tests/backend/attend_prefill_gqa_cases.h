#pragma once

#include <vector>

#include "vestige/layout.h"

namespace vestige::test {

struct AttendPrefillGqaCase {
  const char* name;
  int64_t position, t, h, n_kv;
  RowLayout layout;  ///< content not scored
  int64_t page_rows;
  double bound;
};

inline const std::vector<AttendPrefillGqaCase>& attend_prefill_gqa_cases() {
  constexpr RowLayout kModel = {.d_content = 64, .d_branch = 64, .dtype = DType::kBF16, .scored_content = false};
  constexpr RowLayout kOdd = {.d_content = 21, .d_branch = 6, .dtype = DType::kF32, .scored_content = false};
  static const std::vector<AttendPrefillGqaCase> kCases = {
      {"one_token", 0, 1, 4, 2, kModel, 4096, 1e-5},
      {"no_query", 7, 0, 4, 2, kModel, 4096, 0},
      {"start", 0, 300, 6, 2, kModel, 64, 1e-5},
      {"inside", 517, 70, 4, 4, kModel, 100, 1e-5},
      {"odd", 127, 131, 9, 3, kOdd, 33, 1e-5},
      {"more_heads_than_in_flight", 255, 2, 20, 2, kOdd, 4096, 1e-5},
      {"many_key_heads", 100, 40, 10, 10, kOdd, 64, 1e-5},
      {"two_spans", 2040, 20, 3, 1, kModel, 4096, 1e-5},
  };
  return kCases;
}

}  // namespace vestige::test
