#include "cache/policies/klt/head_transform.h"

#include <algorithm>
#include <cmath>

#include "backend/ops/transform_from_moments.h"
#include "cache/key_turn.h"
#include "vestige/ops.h"

namespace vestige::klt {

namespace {

constexpr double kShares[] = {0.45, 0.75, 0.93};  // of the rows, in energy order: where a class ends
constexpr float kRidge = 1e-3f;

/// Lower triangle of the mean and covariance of x [n, d].
TransformMoments moments_of(const std::vector<float>& x, int64_t n, int64_t d) {
  TransformMoments out;
  out.mean.assign(static_cast<size_t>(d), 0.0);
  out.covariance.assign(static_cast<size_t>(d * d), 0.0);
  for (int64_t t = 0; t < n; ++t) {
    for (int64_t j = 0; j < d; ++j) out.mean[static_cast<size_t>(j)] += double(x[static_cast<size_t>(t * d + j)]);
  }
  for (double& m : out.mean) m /= double(n);
  std::vector<double> centred(static_cast<size_t>(d));
  for (int64_t t = 0; t < n; ++t) {
    for (size_t j = 0; j < centred.size(); ++j) centred[j] = double(x[static_cast<size_t>(t * d) + j]) - out.mean[j];
    for (int64_t i = 0; i < d; ++i) {
      const double weight = centred[static_cast<size_t>(i)] / double(n);
      double* row = out.covariance.data() + i * d;
      for (int64_t j = 0; j <= i; ++j) row[j] += weight * centred[static_cast<size_t>(j)];
    }
  }
  return out;
}

void add_energy(const std::vector<float>& t, int64_t n, int64_t d, double unit, std::vector<double>* energy) {
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < d; ++j)
      sum += double(t[static_cast<size_t>(i * d + j)]) * double(t[static_cast<size_t>(i * d + j)]);
    (*energy)[static_cast<size_t>(i)] += unit * sum;
  }
}

/// A class without rows takes the variances of the one below, or above: blocks that close later may have such rows.
void fill_empty(ClassVariance* v) {
  for (auto& side : v->of_side) {
    for (size_t c = 1; c < kClasses; ++c) {
      if (v->n_rows[c] == 0) side[c] = side[c - 1];
    }
    for (size_t c = kClasses - 1; c-- > 0;) {
      if (v->n_rows[c] == 0) side[c] = side[c + 1];
    }
  }
}

void add_variance(const std::vector<float>& t, const RowClasses& classes, double unit, int64_t d,
                  std::array<std::vector<double>, kClasses>* out) {
  std::array<int64_t, kClasses> n = {};
  for (auto& row : *out) row.assign(static_cast<size_t>(d), 0.0);
  for (size_t i = 0; i < classes.of_row.size(); ++i) {
    std::vector<double>& row = (*out)[classes.of_row[i]];
    for (size_t j = 0; j < row.size(); ++j) {
      const auto x = double(t[i * static_cast<size_t>(d) + j]);
      row[j] += x * x;
    }
    ++n[classes.of_row[i]];
  }
  for (size_t c = 0; c < kClasses; ++c) {
    for (double& x : (*out)[c]) x *= unit / double(std::max<int64_t>(1, n[c]));
    make_falling(&(*out)[c]);
  }
}

Result<SideTransform> fit_side(const std::vector<float>& x, int64_t n, int64_t d, const std::vector<double>& metric) {
  TransformMoments moments = moments_of(x, n, d);
  moments.queries = metric;
  SideTransform out;
  const auto size = static_cast<size_t>(d * d);
  std::vector<float> variance(static_cast<size_t>(d));
  out.mean.resize(variance.size());
  out.forward.resize(size);
  out.dual.resize(size);
  FitTransformParams p;
  p.ridge = kRidge;
  p.mean = {out.mean.data(), DType::kF32, {d}};
  p.forward = {out.forward.data(), DType::kF32, {d, d}};
  p.dual = {out.dual.data(), DType::kF32, {d, d}};
  p.variance = {variance.data(), DType::kF32, {d}};
  VESTIGE_TRY(transform_from_moments(moments, p));
  // The unit of the metric may be tiny; ranges have a grid.
  if (variance[0] > 0) out.unit = double(variance[0]);
  const auto root = static_cast<float>(std::sqrt(out.unit));
  for (float& f : out.forward) f /= root;
  for (float& f : out.dual) f *= root;
  return out;
}

RowClasses classify(const std::vector<double>& energy) {
  RowClasses out;
  std::vector<double> sorted = energy;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < out.limits.size(); ++i) {
    const auto at = static_cast<size_t>(kShares[i] * double(sorted.size()));
    out.limits[i] = static_cast<float>(sorted[std::min(at, sorted.size() - 1)]);
  }
  out.of_row.reserve(energy.size());
  for (const double e : energy) out.of_row.push_back(class_of(e, out.limits));
  return out;
}

}  // namespace

HeadRows coded_rows(const HeadRows& rows, int64_t first, int64_t n, const KeyRotation& rotation) {
  HeadRows out;
  out.n = n;
  out.d = rows.d;
  const auto begin = static_cast<std::ptrdiff_t>(first * rows.d), size = static_cast<std::ptrdiff_t>(n * rows.d);
  out.key.assign(rows.key.begin() + begin, rows.key.begin() + begin + size);
  out.value.assign(rows.value.begin() + begin, rows.value.begin() + begin + size);
  turn_keys(out.key.data(), n, rows.d, rotation, first, 1, -1);
  return out;
}

Result<std::vector<float>> coefficients_of(const std::vector<float>& x, int64_t n, int64_t d,
                                           const SideTransform& transform, Stream& stream) {
  std::vector<float> centred(x), out(x.size());
  for (int64_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < static_cast<size_t>(d); ++j) centred[static_cast<size_t>(i * d) + j] -= transform.mean[j];
  }
  VESTIGE_TRY(ops::matmul({.x = {centred.data(), DType::kF32, {n, d}},
                           .w = {transform.forward.data(), DType::kF32, {d, d}},
                           .out = {out.data(), DType::kF32, {n, d}}},
                          stream));
  VESTIGE_TRY(stream.synchronize());
  return out;
}

uint8_t class_of(double energy, const std::array<float, kClasses - 1>& limits) {
  uint8_t c = 0;
  while (c < kClasses - 1 && energy >= double(limits[c])) ++c;
  return c;
}

Result<HeadTransform> fit_head(const RecallFit& fit, const HeadRows& rows, int64_t first, int64_t n_end,
                               const KeyRotation& rotation, const Weighting& weighting, Stream& stream) {
  const int64_t n = n_end - first, d = rows.d;
  VESTIGE_ASSIGN(const Sensitivity sensitivity, measure_sensitivity(fit, rows, rotation, weighting, stream));
  const HeadRows coded = coded_rows(rows, first, n, rotation);
  HeadTransform out;
  std::vector<float> t[2];
  std::vector<double> energy(static_cast<size_t>(n), 0.0);
  for (size_t s = 0; s < 2; ++s) {
    const std::vector<float>& x = s == 0 ? coded.key : coded.value;
    VESTIGE_ASSIGN(out.side[s], fit_side(x, n, d, s == 0 ? sensitivity.key : sensitivity.value));
    VESTIGE_ASSIGN(t[s], coefficients_of(x, n, d, out.side[s], stream));
    add_energy(t[s], n, d, out.side[s].unit, &energy);
  }
  // Nothing that is not a number may be sorted.
  if (!std::all_of(energy.begin(), energy.end(), [](double e) { return std::isfinite(e); })) {
    return invalid_argument("klt: a row's energy is not finite, want rows and queries within float32's range");
  }
  out.classes = classify(energy);
  out.variance.d = d;
  for (const uint8_t c : out.classes.of_row) ++out.variance.n_rows[c];
  for (size_t s = 0; s < 2; ++s) {
    add_variance(t[s], out.classes, out.side[s].unit, d, &out.variance.of_side[s]);
  }
  fill_empty(&out.variance);
  return out;
}

}  // namespace vestige::klt
