#pragma once

#include <vector>

#include "vestige/ops/pages.h"

namespace vestige::test {

struct PageCase {
  const char* name;
  int64_t b, h, n_pages;
  RowLayout layout;
  int64_t page_rows, block_pages;
  PageDigest digest;
  int64_t top_k;
};

inline const std::vector<PageCase>& page_cases() {
  constexpr RowLayout kModel = {.d_content = 512, .d_branch = 64, .dtype = DType::kBF16};
  constexpr RowLayout kModelF32 = {.d_content = 512, .d_branch = 64, .dtype = DType::kF32};
  constexpr RowLayout kOdd = {.d_content = 37, .d_branch = 5, .dtype = DType::kBF16};
  constexpr RowLayout kNoBranch = {.d_content = 19, .d_branch = 0, .dtype = DType::kF32};
  constexpr RowLayout kGqa = {.d_content = 24, .d_branch = 40, .dtype = DType::kBF16, .scored_content = false};
  static const std::vector<PageCase> kCases = {
      {"empty", 1, 8, 0, kModel, 32, 4, PageDigest::kBox, 0},
      {"one_page", 1, 8, 1, kModel, 32, 1, PageDigest::kBox, 0},
      {"boxes", 1, 8, 40, kModel, 8, 8, PageDigest::kBox, 0},
      {"boxes_top", 1, 8, 150, kModel, 4, 75, PageDigest::kBox, 5},
      {"spheres", 1, 8, 40, kModelF32, 8, 20, PageDigest::kSphere, 0},
      {"mean_spheres_top", 1, 5, 40, kModel, 8, 40, PageDigest::kMeanSphere, 3},
      {"odd_batch", 3, 3, 30, kOdd, 5, 7, PageDigest::kBox, 2},
      {"no_branch_single_rows", 2, 1, 70, kNoBranch, 1, 70, PageDigest::kSphere, 0},
      {"gqa_boxes", 1, 3, 40, kGqa, 8, 8, PageDigest::kBox, 0},
      {"gqa_spheres", 1, 3, 40, kGqa, 8, 8, PageDigest::kSphere, 0},
      {"all_pages", 1, 2, 6, kOdd, 3, 6, PageDigest::kBox, 99},
  };
  return kCases;
}

}  // namespace vestige::test
