#pragma once

#include <vector>

#include "vestige/tensor.h"

namespace vestige::test {

struct MergePartsCase {
  const char* name;
  int64_t n_parts, b, h, d;
  std::vector<int64_t> empty_parts;
  double bound;
};

inline const std::vector<MergePartsCase>& merge_parts_cases() {
  static const std::vector<MergePartsCase> kCases = {
      {"one_part", 1, 1, 8, 512, {}, 1e-6},  {"three", 3, 1, 8, 512, {}, 1e-6}, {"odd", 5, 2, 3, 37, {0, 3}, 1e-6},
      {"all_empty", 2, 1, 4, 16, {0, 1}, 0}, {"no_parts", 0, 1, 4, 16, {}, 0},  {"last_empty", 2, 3, 1, 1, {1}, 1e-6},
  };
  return kCases;
}

}  // namespace vestige::test
