#pragma once

// The eigenvectors fit_basis hands out, shared by the backends: only the covariance is theirs.

#include <vector>

#include "vestige/status.h"
#include "vestige/tensor.h"

namespace vestige {

/// @param covariance [d, d] row-major, lower triangle read; destroyed.
/// @param basis [r, d] f32, out: eigenvectors of the r largest eigenvalues, largest first, the entry of largest
///        magnitude (the first of equals) positive.
Status top_eigenvectors(std::vector<double>& covariance, const TensorView& basis);

}  // namespace vestige
