#pragma once

// Rows of one head as bit planes: tables and codes, as a step reads them and a file holds them.

#include <array>
#include <string>
#include <vector>

#include "cache/policies/klt/head_transform.h"
#include "vestige/ops/planes.h"

namespace vestige::klt {

struct CodedSide {
  int64_t rank = 0;
  std::vector<int8_t> basis;             ///< [rank, d]
  std::vector<float> basis_scale, mean;  ///< [rank], [d]
  std::vector<int32_t> n_planes;         ///< [kClasses, kMaxBits]
  std::vector<uint8_t> range;            ///< [kClasses, rank]

  PlaneSide view(int64_t d) const;
};

struct CodedHead {
  int64_t d = 0, n_rows = 0;
  CodedSide side[2];                            ///< key, value
  std::array<float, kClasses - 1> limits = {};  ///< of energy: least of classes 1, 2, ...
  float unit[2] = {1, 1};                       ///< energy of a unit of squared coefficient, by side
  std::vector<uint8_t> row_class;               ///< two bits a row
  std::vector<int32_t> run_start;               ///< [runs, kClasses]
  std::vector<uint8_t> codes;

  PlaneRows view() const;
  int64_t n_bytes() const;

  /// More rows with the present tables: keys before their turn, and values. Coefficients are those of the least squared
  /// error, since the metric of the fit is not kept.
  Status append(const HeadRows& rows, Stream& stream);
  /// Whether what a file brought fits together; every number an op trusts. @return DataLoss
  Status check(const std::string& name) const;
};

/// @param coded rows as fit_head coded them
Result<CodedHead> code_head(const HeadTransform& transform, const BitPlan& plan, const HeadRows& coded, Stream& stream);

}  // namespace vestige::klt
