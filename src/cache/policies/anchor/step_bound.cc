#include "cache/policies/anchor/step_bound.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace vestige::anchor {

namespace {

// Of weights: exponents and sums in float32, and scores of the rows attended exactly, up to some hundreds.
constexpr double kWeightSlack = 0x1p-14;
// Of outputs in float32, relative to their length.
constexpr double kOutputRounding = 0x1p-18;

using Doubles = std::vector<double>;

float up(double x) { return std::nextafter(static_cast<float>(x), HUGE_VALF); }

double norm(const Doubles& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

double distance(const float* x, const Doubles& y) {
  double sum = 0;
  for (size_t j = 0; j < y.size(); ++j) sum += (static_cast<double>(x[j]) - y[j]) * (static_cast<double>(x[j]) - y[j]);
  return std::sqrt(sum);
}

/// What was attended: both parts by their share.
Doubles merged(const CodedStep& s) {
  const double a = static_cast<double>(s.coded_lse), b = static_cast<double>(s.exact_lse), top = std::max(a, b);
  const double u = std::exp(a - top), v = std::exp(b - top);
  Doubles y;
  for (int64_t j = 0; j < s.d; ++j)
    y.push_back((u * static_cast<double>(s.coded[j]) + v * static_cast<double>(s.exact[j])) / (u + v));
  return y;
}

/// Weights with the sketches' scores put right, relative to the largest; the last is that of all exact rows together.
std::vector<float> corrected_weights(const CodedStep& s) {
  const size_t n = s.score.size();
  Doubles score;
  double top = static_cast<double>(s.exact_lse);
  for (size_t t = 0; t < n; ++t) {
    const double c = s.correction.empty() ? 0.0 : static_cast<double>(s.correction[t]);
    top = std::max(top, score.emplace_back(static_cast<double>(s.score[t]) + c));
  }
  std::vector<float> weight;
  for (const double x : score) weight.push_back(static_cast<float>(std::exp(x - top)));
  weight.push_back(static_cast<float>(std::exp(static_cast<double>(s.exact_lse) - top)));
  return weight;
}

/// || value - center || of every row, the exact ones as the one row that is their output.
std::vector<float> norms_around(const CodedStep& s, const Doubles& center) {
  std::vector<float> out;
  for (size_t t = 0; t < s.score.size(); ++t) {
    out.push_back(up(distance(s.value.data() + t * static_cast<size_t>(s.d), center) * (1 + 1e-9)));
  }
  out.push_back(up(distance(s.exact, center) * (1 + 1e-9)));
  return out;
}

}  // namespace

// Exact rows change their weights by one common factor, so that all of them together are one row: their output.
Result<double> bound_step(const CodedStep& s) {
  const size_t n = s.score.size(), d = static_cast<size_t>(s.d);
  const std::vector<float> weight = corrected_weights(s);
  Doubles corrected(d, 0.0);
  double total = 0;
  for (size_t t = 0; t <= n; ++t) {
    const auto w = static_cast<double>(weight[t]);
    const float* value = t < n ? s.value.data() + t * d : s.exact;
    for (size_t j = 0; j < d; ++j) corrected[j] += w * static_cast<double>(value[j]);
    total += w;
  }
  for (double& x : corrected) x /= total;
  std::vector<float> logit_error, value_error(s.value_bound.begin(), s.value_bound.end());
  for (const float bound : s.key_bound) logit_error.push_back(up(s.reach * static_cast<double>(bound)));
  logit_error.push_back(0);
  value_error.push_back(0);
  const Doubles got = merged(s), zero(d, 0.0);
  double least = HUGE_VAL;
  for (const Doubles& center : {corrected, zero}) {
    VESTIGE_ASSIGN(const auto c,
                   certify_step({weight, logit_error, value_error, norms_around(s, center), kWeightSlack}));
    if (c.output < least) least = c.output;
  }
  double moved = 0;
  for (size_t j = 0; j < d; ++j) moved += (got[j] - corrected[j]) * (got[j] - corrected[j]);
  const double rounding = kOutputRounding * (norm(got) + norm(corrected) + distance(s.exact, zero));
  const double bound = (least + std::sqrt(moved) + rounding) * (1 + 1e-9);
  return std::isnan(bound) ? HUGE_VAL : bound;
}

}  // namespace vestige::anchor
