#pragma once

// From second moments to a row transform: the dense linear algebra of fit_transform, shared by its backends.

#include <vector>

#include "vestige/ops/codes.h"

namespace vestige {

struct TransformMoments {
  std::vector<double> mean;        ///< [d] of the rows
  std::vector<double> covariance;  ///< [d, d] of the rows, lower triangle
  std::vector<double> queries;     ///< [d, d] second moment of the queries, lower triangle
};

/// Fills mean, forward, dual and variance of `p`. @return InvalidArgument if a moment is not finite.
Status transform_from_moments(const TransformMoments& moments, const FitTransformParams& p);

/// Fills metric, white and ridge of group g. @param moment [d, d] second moment of its dual queries, lower triangle
Status metric_from_moment(const std::vector<double>& moment, int64_t g, const FitTransformParams& p);

}  // namespace vestige
