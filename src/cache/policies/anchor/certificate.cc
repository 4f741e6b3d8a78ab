#include "cache/policies/anchor/certificate.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vestige::anchor {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// What covers the float64 rounding of sums of n terms >= 0, each of a handful of operations.
double margin(size_t n) { return (static_cast<double>(n) + 64) * 0x1p-52; }

double up(double x, size_t n) { return x * (1 + margin(n)); }

/// `a` where it is the smaller number; `b` where a is not a number.
double least(double a, double b) { return a < b ? a : b; }

/// The larger number, or what is not a number.
double greatest(double a, double b) { return b <= a || std::isnan(a) ? a : b; }

/// A float32 weight of zero may be anything below the smallest one.
double not_underflown(float w) { return std::max(static_cast<double>(w), 0x1p-149); }

/// Bounds of the normaliser of the exact weights in units of the coded one.
struct Normaliser {
  double total = 0;  // of the weights as given
  double low = 0, high = 0, hidden = 0;
  double largest_error = 0, largest_value = 0;
};

Normaliser normalise(const StepErrors& s) {
  Normaliser z;
  for (float w : s.weight) z.total += static_cast<double>(w);
  const size_t n = s.weight.size();
  for (size_t t = 0; t < n; ++t) {
    const double w = static_cast<double>(s.weight[t]) / z.total, at_most = not_underflown(s.weight[t]) / z.total;
    const double e = static_cast<double>(s.logit_error[t]) + s.weight_slack;
    const double value = static_cast<double>(s.value_norm[t]) + static_cast<double>(s.value_error[t]);
    z.low += w * std::exp(-e);
    z.high += at_most * std::exp(e);
    z.hidden += at_most * std::expm1(e);
    z.largest_error = greatest(z.largest_error, e);
    z.largest_value = greatest(z.largest_value, value);
  }
  z.low *= 1 - margin(n);
  z.high = up(z.high, n);
  z.hidden = up(z.hidden, n);
  return z;
}

bool same_lengths(const StepErrors& s) {
  const size_t n = s.weight.size();
  return s.logit_error.size() == n && s.value_error.size() == n && s.value_norm.size() == n;
}

}  // namespace

Result<StepCertificate> certify_step(const StepErrors& s) {
  const size_t n = s.weight.size();
  if (!same_lengths(s)) return invalid_argument("certificate: errors of another length than the %zu weights", n);
  const Normaliser z = normalise(s);
  if (!(z.total > 0 && z.total < kInf)) return invalid_argument("certificate: weights add up to %g, want > 0", z.total);
  double direct = 0, moved = 0, carried = 0;
  for (size_t t = 0; t < n; ++t) {
    const double w = not_underflown(s.weight[t]) / z.total;
    const double e = static_cast<double>(s.logit_error[t]) + s.weight_slack;
    const double error = static_cast<double>(s.value_error[t]);
    // |exact - coded| <= w times the larger of growing and shrinking as far as e and the others' e allow. The margin
    // covers the cancellation near 1.
    const double grow = std::exp(e) / z.low - 1, shrink = 1 - std::exp(-e) / z.high;
    const double change = (grow <= shrink ? shrink : grow) + 2 * margin(n);
    direct += w * error;
    moved += w * change;
    carried += w * change * (static_cast<double>(s.value_norm[t]) + error);
  }
  StepCertificate c;
  c.hidden = z.hidden;
  c.l1 = least(2 * std::tanh(z.largest_error / 2) + margin(n), 2.0);
  c.l1 = least(up(2 * z.hidden / z.low, n), c.l1);
  c.l1 = least(up(moved, n), c.l1);
  const double by_l1 = c.l1 * z.largest_value;
  c.output = up(direct + least(carried, by_l1), n);
  if (std::isnan(c.output)) c.output = kInf;
  if (std::isnan(c.hidden)) c.hidden = kInf;
  return c;
}

Result<StepCertificate> certify_uniform(const UniformErrors& s) {
  const size_t n = s.weight.size();
  if (s.value_error.size() != n) return invalid_argument("certificate: %zu errors, want %zu", s.value_error.size(), n);
  double total = 0, direct = 0;
  for (size_t t = 0; t < n; ++t) {
    total += static_cast<double>(s.weight[t]);
    direct += static_cast<double>(s.weight[t]) * static_cast<double>(s.value_error[t]);
  }
  if (!(total > 0 && total < kInf)) return invalid_argument("certificate: weights add up to %g, want > 0", total);
  StepCertificate c;
  c.l1 = least(2 * std::tanh(s.logit_error / 2) + margin(n), 2.0);
  c.hidden = up(std::expm1(s.logit_error), n);
  c.output = up(direct / total + s.v_max * c.l1, n);
  if (std::isnan(c.output)) c.output = kInf;
  return c;
}

}  // namespace vestige::anchor
