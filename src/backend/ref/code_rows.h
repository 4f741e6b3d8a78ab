#pragma once

// One query against coded rows in float64: what scan_codes and attend_codes of this backend are made of.

#include <vector>

#include "vestige/ops/codes.h"

namespace vestige::ref {

struct CodedHead {
  std::vector<double> dual;  ///< dual q
  double at_mean = 0;        ///< q . mean
  double norm = 0;           ///< ||dual q|| in the inverse metric of the head's group
  double slack = 0;          ///< scale included
  int64_t group = 0;
};

CodedHead coded_head(const CodeSet& set, const float* q, int64_t head, int64_t h, float scale);

/// What row u stands for in stage s: values [d], added to `t`.
void add_coded(const CodeSet& set, size_t s, int64_t u, std::vector<double>* t);
/// Its error norm of one group.
double coded_norm(const CodeSet& set, size_t s, int64_t u, int64_t group);

}  // namespace vestige::ref
