#include "backend/ops/top_eigenvectors.h"

#include <cmath>

#include "backend/ops/blas_eigen.h"

namespace vestige {

Status top_eigenvectors(std::vector<double>& covariance, const TensorView& basis) {
  use_one_blas_thread();
  const int64_t r = basis.dim(0), d = basis.dim(1);
  // A symmetric matrix is its own transpose: the row-major lower triangle is Eigen's upper one, so mirror it.
  Eigen::Map<Eigen::MatrixXd> matrix(covariance.data(), d, d);
  matrix.triangularView<Eigen::Lower>() = matrix.transpose();
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(matrix);
  if (solver.info() != Eigen::Success) {
    return invalid_argument("fit_basis: the covariance has no eigenvectors, want finite samples");
  }
  float* out = basis.as<float>();
  for (int64_t j = 0; j < r; ++j) {
    const auto vector = solver.eigenvectors().col(d - 1 - j);
    int64_t largest = 0;
    for (int64_t k = 1; k < d; ++k) {
      // 1e-12: entries equal but for rounding count as equal, so that the sign does not hang on it.
      if (std::abs(vector[k]) > std::abs(vector[largest]) + 1e-12) largest = k;
    }
    const double sign = vector[largest] < 0 ? -1.0 : 1.0;
    for (int64_t k = 0; k < d; ++k) out[j * d + k] = static_cast<float>(sign * vector[k]);
  }
  return {};
}

}  // namespace vestige
