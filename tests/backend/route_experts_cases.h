#pragma once

#include "vestige/ops/experts.h"

namespace vestige {

struct RouteExpertsCase {
  int64_t t, e, top_k;
  int32_t n_groups = 1, topk_group = 1;
  bool bias = true, renormalize = true;
  RouterActivation activation = RouterActivation::kSigmoid;
};

inline constexpr double kRouteExpertsBound = 1e-6;

inline constexpr RouteExpertsCase kRouteExpertsCases[] = {
    {0, 8, 2},
    {1, 1, 1},
    {3, 8, 8},
    {50, 64, 8},
    {40, 16, 3, 4, 2, true, false},
    {33, 12, 2, 12, 5, false},
    {20, 256, 8, 8, 4},
    {20, 30, 4, 1, 1, false, true, RouterActivation::kSoftmax},
};

}  // namespace vestige
