#include "backend/ops/transform_from_moments.h"

#include <algorithm>
#include <cmath>

#include "backend/ops/blas_eigen.h"

namespace vestige {

namespace {

using Matrix = Eigen::MatrixXd;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix symmetric(const std::vector<double>& lower, int64_t d) {
  const Eigen::Map<const RowMajor> m(lower.data(), d, d);
  Matrix out = m.triangularView<Eigen::Lower>();
  out.triangularView<Eigen::StrictlyUpper>() = out.transpose();
  return out;
}

void store(const Matrix& m, float* out) {
  for (Eigen::Index i = 0; i < m.rows(); ++i) {
    for (Eigen::Index j = 0; j < m.cols(); ++j) out[i * m.cols() + j] = static_cast<float>(m(i, j));
  }
}

/// What one unit of error in x costs: the queries' second moment, the value map, and a floor.
Matrix error_metric(const Matrix& queries, const Matrix& covariance, const FitTransformParams& p) {
  const Eigen::Index d = queries.rows();
  Matrix m = queries;
  if (!p.value_gram.empty()) {
    const int64_t d_content = p.value_gram.dim(0);
    Matrix gram = Matrix::Zero(d, d);
    for (int64_t i = 0; i < d_content; ++i) {
      for (int64_t j = 0; j < d_content; ++j) gram(i, j) = p.value_gram.as<float>()[i * d_content + j];
    }
    const double of_scores = m.cwiseProduct(covariance).sum(), of_values = gram.cwiseProduct(covariance).sum();
    if (of_scores > 0 && of_values > 0) m = m / of_scores + gram / of_values;
  }
  const double mean = m.trace() / static_cast<double>(d);
  m.diagonal().array() += (mean > 0 ? mean : 1.0) * static_cast<double>(p.ridge);
  return m;
}

/// Pivoted Cholesky: columns of L with M = L L^T + what is left; stops at `rank` or when little is left.
Matrix low_rank_factor(const Matrix& m, Eigen::Index rank) {
  const Eigen::Index d = m.rows();
  Matrix l = Matrix::Zero(d, rank);
  Eigen::VectorXd left = m.diagonal();
  const double floor = 1e-9 * std::max(left.sum(), 1e-300);
  for (Eigen::Index k = 0; k < rank; ++k) {
    Eigen::Index pivot = 0;
    for (Eigen::Index i = 1; i < d; ++i) {
      if (left(i) > left(pivot)) pivot = i;
    }
    if (!(left(pivot) > floor)) break;
    Eigen::VectorXd column = m.col(pivot);
    if (k > 0) column -= l.leftCols(k) * l.row(pivot).head(k).transpose();
    column /= std::sqrt(left(pivot));
    l.col(k) = column;
    left -= column.cwiseAbs2();
    left(pivot) = 0;
  }
  return l;
}

}  // namespace

Status transform_from_moments(const TransformMoments& moments, const FitTransformParams& p) {
  use_one_blas_thread();
  const auto d = static_cast<int64_t>(moments.mean.size());
  const Matrix covariance = symmetric(moments.covariance, d), queries = symmetric(moments.queries, d);
  if (!std::isfinite(queries.sum()) || !std::isfinite(covariance.sum())) {
    return invalid_argument("fit_transform: a moment is not finite, want finite queries and rows");
  }
  const Eigen::LLT<Matrix> cholesky(error_metric(queries, covariance, p));
  if (cholesky.info() != Eigen::Success) return invalid_argument("fit_transform: the queries' moment has no factor");
  const Matrix l = cholesky.matrixL();
  const Matrix left = l.transpose() * covariance;
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(left * l);
  if (solver.info() != Eigen::Success) return invalid_argument("fit_transform: the rows have no eigenvectors");
  const Matrix u = solver.eigenvectors().rowwise().reverse();
  for (int64_t j = 0; j < d; ++j) {
    p.variance.as<float>()[j] = static_cast<float>(std::max(0.0, solver.eigenvalues()(d - 1 - j)));
    p.mean.as<float>()[j] = static_cast<float>(moments.mean[static_cast<size_t>(j)]);
  }
  store(u.transpose() * l.transpose(), p.forward.as<float>());
  store(l.triangularView<Eigen::Lower>().transpose().solve(u).transpose(), p.dual.as<float>());
  return {};
}

Status metric_from_moment(const std::vector<double>& moment, int64_t g, const FitTransformParams& p) {
  use_one_blas_thread();
  const int64_t rank = p.metric.dim(1), d = p.metric.dim(2);
  const Matrix m = symmetric(moment, d);
  if (!std::isfinite(m.sum())) return invalid_argument("fit_transform: a moment is not finite, want finite queries");
  const double mean = m.trace() / static_cast<double>(d);
  // Both are rounded first, so that `white` belongs to the metric that is stored.
  const auto ridge = static_cast<float>((mean > 0 ? mean : 1.0) * static_cast<double>(p.group_ridge));
  const Matrix l = low_rank_factor(m, rank).cast<float>().cast<double>();
  Matrix inner = l.transpose() * l;
  inner.diagonal().array() += static_cast<double>(ridge);
  const Eigen::LLT<Matrix> factor(inner);
  store(l.transpose(), p.metric.as<float>() + g * rank * d);
  store(factor.matrixL().solve(l.transpose()), p.white.as<float>() + g * rank * d);
  p.ridge_out.as<float>()[g] = ridge;
  return {};
}

}  // namespace vestige
