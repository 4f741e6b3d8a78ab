#pragma once

#include <limits>
#include <vector>

namespace vestige::test {

struct SelectRowsCase {
  const char* name;
  std::vector<float> score;
  int64_t n_keep, n_sinks;
  std::vector<int> want;  ///< worked by hand
};

inline const std::vector<SelectRowsCase>& select_rows_cases() {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  static const std::vector<SelectRowsCase> kCases = {
      {"none", {}, 0, 0, {}},
      {"keep_none", {1, 2, 3}, 0, 0, {}},
      {"keep_all", {1, 2, 3}, 3, 3, {0, 1, 2}},
      {"best_two", {1, 5, 3, 4}, 2, 0, {1, 3}},
      {"ties_low_id", {2, 2, 2, 2}, 2, 0, {0, 1}},
      {"ties_at_border", {1, 7, 2, 2, 2}, 2, 0, {1, 2}},
      {"sinks_extra", {0, 0, 9, 8}, 1, 2, {0, 1, 2}},
      {"sink_also_best", {9, 1, 2}, 1, 1, {0}},
      {"nan_is_lowest", {kNan, -1, kNan, -2}, 2, 0, {1, 3}},
      {"nan_ties_minus_inf", {-kInf, kNan, -kInf}, 2, 0, {0, 1}},
      {"inf", {1, kInf, 2}, 1, 0, {1}},
      {"zeros_tie", {-0.0f, 0.0f, -1}, 1, 0, {0}},
      {"negative", {-3, -1, -2}, 2, 0, {1, 2}},
  };
  return kCases;
}

}  // namespace vestige::test
