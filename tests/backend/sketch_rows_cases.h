#pragma once

#include <vector>

#include "vestige/tensor.h"

namespace vestige::test {

struct SketchRowsCase {
  const char* name;
  int64_t n, d, stride, rank;
  DType dtype;
  double bound;  ///< of the residual; a sketch may differ by one f16 step
};

inline const std::vector<SketchRowsCase>& sketch_rows_cases() {
  static const std::vector<SketchRowsCase> kCases = {
      {"none", 0, 16, 16, 4, DType::kF32, 0},           {"one_row", 1, 512, 512, 64, DType::kBF16, 1e-5},
      {"model", 300, 512, 576, 64, DType::kBF16, 1e-5}, {"odd", 131, 21, 23, 5, DType::kF32, 1e-5},
      {"full_rank", 10, 16, 16, 16, DType::kF32, 1e-5},
  };
  return kCases;
}

struct FitBasisCase {
  const char* name;
  int64_t n, d, stride, rank;
  double bound;
};

inline const std::vector<FitBasisCase>& fit_basis_cases() {
  static const std::vector<FitBasisCase> kCases = {
      {"model", 300, 96, 96, 16, 1e-5},
      {"runs", 2500, 24, 30, 5, 1e-5},
      {"all", 40, 6, 6, 6, 1e-5},
  };
  return kCases;
}

}  // namespace vestige::test
