// The projection that latent rows are coded in, and its least-squares inverse.

#include <algorithm>
#include <cmath>

#include "backend/ops/transform_from_moments.h"
#include "base/half.h"
#include "cache/policies/anchor/latent_code.h"

namespace vestige::anchor {

namespace {

constexpr float kRidge = 1e-3f;         // of the metric, as klt has it
constexpr int64_t kMostSampled = 4096;  // rows that the second moments are taken over

/// Adds weight x x^T to a lower triangle [d, d].
void add_outer(const double* x, int64_t d, double weight, std::vector<double>* lower) {
  for (int64_t i = 0; i < d; ++i) {
    const double scaled = weight * x[i];
    double* row = lower->data() + i * d;
    for (int64_t j = 0; j <= i; ++j) row[j] += scaled * x[j];
  }
}

std::vector<double> mean_of(const ConstTensorView& rows) {
  const int64_t n = rows.dim(0), d = rows.dim(1);
  std::vector<double> mean(static_cast<size_t>(d));
  for (int64_t t = 0; t < n; ++t) {
    for (int64_t j = 0; j < d; ++j) mean[static_cast<size_t>(j)] += double(rows.as<float>()[t * d + j]);
  }
  for (double& m : mean) m /= double(n);
  return mean;
}

/// Of the content alone.
TransformMoments moments_of(const ConstTensorView& rows, const ConstTensorView& queries,
                            const std::vector<double>& mean, int64_t d) {
  TransformMoments out;
  const auto size = static_cast<size_t>(d * d);
  out.mean.assign(mean.begin(), mean.begin() + d);
  out.covariance.assign(size, 0.0);
  out.queries.assign(size, 0.0);
  std::vector<double> x(static_cast<size_t>(d));
  const int64_t n = rows.dim(0), step = (n + kMostSampled - 1) / kMostSampled, n_sampled = (n + step - 1) / step;
  for (int64_t t = 0; t < n; t += step) {
    const float* row = rows.as<float>() + t * rows.dim(1);
    for (int64_t j = 0; j < d; ++j) x[static_cast<size_t>(j)] = double(row[j]) - mean[static_cast<size_t>(j)];
    add_outer(x.data(), d, 1 / double(n_sampled), &out.covariance);
  }
  const int64_t m = queries.empty() ? 0 : queries.dim(0);
  for (int64_t i = 0; i < m; ++i) {
    const float* q = queries.as<float>() + i * queries.dim(1);
    std::copy_n(q, d, x.begin());
    add_outer(x.data(), d, 1 / double(m), &out.queries);
  }
  for (int64_t j = 0; j < d && m == 0; ++j) out.queries[static_cast<size_t>(j * d + j)] = 1;
  return out;
}

/// a = L L^T in place, lower triangle; an a without rank is helped by a floor on its diagonal.
void cholesky(std::vector<double>* a, int64_t n) {
  double trace = 0;
  for (int64_t i = 0; i < n; ++i) trace += (*a)[static_cast<size_t>(i * n + i)];
  const double floor = std::max(1e-9 * trace / double(n), 1e-100);
  for (int64_t i = 0; i < n; ++i) {
    double* row = a->data() + i * n;
    for (int64_t j = 0; j <= i; ++j) {
      const double* other = a->data() + j * n;
      double sum = row[j];
      for (int64_t k = 0; k < j; ++k) sum -= row[k] * other[k];
      row[j] = i == j ? std::sqrt(std::max(sum, floor)) : sum / other[j];
    }
  }
}

}  // namespace

Result<FittedBasis> fit_latent_basis(const RowLayout& layout, const ConstTensorView& rows,
                                     const ConstTensorView& queries, const ConstTensorView& value_gram,
                                     int64_t budget_bytes) {
  const int64_t d = layout.d_content;
  const std::vector<double> mean = mean_of(rows);
  std::vector<float> variance(static_cast<size_t>(d)), content_mean(variance.size());
  std::vector<float> forward(static_cast<size_t>(d * d)), dual(forward.size());
  FitTransformParams p;
  p.value_gram = value_gram;
  p.ridge = kRidge;
  p.mean = {content_mean.data(), DType::kF32, {d}};
  p.forward = {forward.data(), DType::kF32, {d, d}};
  p.dual = {dual.data(), DType::kF32, {d, d}};
  p.variance = {variance.data(), DType::kF32, {d}};
  VESTIGE_TRY(transform_from_moments(moments_of(rows, queries, mean, d), p));

  FittedBasis out;
  LatentBasis& basis = out.basis;
  basis.form = choose_form(layout, variance, rows.dim(0), budget_bytes);
  const int64_t rank = basis.form.rank;
  double longest = 0;  // coordinates get the unit of content, which the f16 scales hold
  for (int64_t i = 0; i < rank; ++i) {
    double square = 0;
    for (int64_t j = 0; j < d; ++j)
      square += double(dual[static_cast<size_t>(i * d + j)]) * double(dual[static_cast<size_t>(i * d + j)]);
    longest = std::max(longest, std::sqrt(square));
  }
  if (!(longest > 0)) longest = 1;
  for (const double m : mean) basis.mean.push_back(f32_to_bf16(static_cast<float>(m)));
  basis.basis.resize(static_cast<size_t>(d * rank));
  out.forward.assign(forward.begin(), forward.begin() + rank * d);
  for (float& f : out.forward) f = static_cast<float>(double(f) * longest);
  for (int64_t j = 0; j < d; ++j) {
    for (int64_t i = 0; i < rank; ++i) {
      basis.basis[static_cast<size_t>(j * rank + i)] =
          f32_to_bf16(static_cast<float>(double(dual[static_cast<size_t>(i * d + j)]) / longest));
    }
  }
  return out;
}

// (B^T B)^-1 B^T by Cholesky, column by column of B^T.
FittedBasis with_least_squares(const LatentBasis& basis) {
  const int64_t d = basis.form.d_content, rank = basis.form.rank;
  std::vector<double> gram(static_cast<size_t>(rank * rank)), row(static_cast<size_t>(rank));
  const auto load = [&](int64_t j) {
    for (int64_t i = 0; i < rank; ++i) {
      row[static_cast<size_t>(i)] = double(bf16_to_f32(basis.basis[static_cast<size_t>(j * rank + i)]));
    }
  };
  for (int64_t j = 0; j < d; ++j) {
    load(j);
    add_outer(row.data(), rank, 1, &gram);
  }
  cholesky(&gram, rank);
  FittedBasis out{basis, std::vector<float>(static_cast<size_t>(rank * d))};
  const auto l = [&](int64_t i, int64_t k) { return gram[static_cast<size_t>(i * rank + k)]; };
  for (int64_t j = 0; j < d; ++j) {
    load(j);
    for (int64_t i = 0; i < rank; ++i) {
      for (int64_t k = 0; k < i; ++k) row[static_cast<size_t>(i)] -= l(i, k) * row[static_cast<size_t>(k)];
      row[static_cast<size_t>(i)] /= l(i, i);
    }
    for (int64_t i = rank; i-- > 0;) {
      for (int64_t k = i + 1; k < rank; ++k) row[static_cast<size_t>(i)] -= l(k, i) * row[static_cast<size_t>(k)];
      row[static_cast<size_t>(i)] /= l(i, i);
      out.forward[static_cast<size_t>(i * d + j)] = static_cast<float>(row[static_cast<size_t>(i)]);
    }
  }
  return out;
}

}  // namespace vestige::anchor
