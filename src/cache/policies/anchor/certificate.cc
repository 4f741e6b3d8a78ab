#include "cache/policies/anchor/certificate.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

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

/// What covers a handful of roundings of one term.
constexpr double kUp = 1 + 0x1p-50;

struct Row {
  double weight;     // of the coded step
  double most, low;  // of the exact one, before it is divided by the exact normaliser
  double error, norm;
};

/// The rows, and between what the exact normaliser lies, in units of the coded one.
struct Step {
  std::vector<Row> rows;
  double low = 0, high = 0, hidden = 0, direct = 0;
  double largest_error = 0, largest_norm = 0, largest_logit = 0;
};

Step widen(const StepErrors& s, double total) {
  Step step;
  const size_t n = s.weight.size();
  step.rows.reserve(n);
  for (size_t t = 0; t < n; ++t) {
    const double w = static_cast<double>(s.weight[t]) / total, at_most = not_underflown(s.weight[t]) / total;
    const double e = static_cast<double>(s.logit_error[t]) + s.weight_slack;
    const Row row = {w, at_most * std::exp(e), w * std::exp(-e), static_cast<double>(s.value_error[t]),
                     static_cast<double>(s.value_norm[t])};
    step.low += row.low;
    step.high += row.most;
    step.hidden += at_most * std::expm1(e);
    step.direct += at_most * row.error;
    step.largest_error = greatest(step.largest_error, row.error);
    step.largest_norm = greatest(step.largest_norm, row.norm);
    step.largest_logit = greatest(step.largest_logit, e);
    step.rows.push_back(row);
  }
  step.low *= 1 - margin(n);
  step.high = up(step.high, n);
  step.hidden = up(step.hidden, n);
  return step;
}

/// Mass that moves, and what it does to the output.
struct Moved {
  double mass = 0, output = 0;
};

/// At most, if the exact normaliser is from a to b. A row gains or loses, never both, and as much is gained as is
/// lost: mass <= any mean of the two.
Moved move_between(const Step& step, double a, double b) {
  constexpr double kShares[] = {0.1, 0.25, 0.4, 0.6, 0.8};
  constexpr size_t kMeans = std::size(kShares);
  double gains = 0, losses = 0, means[kMeans] = {}, carried = 0;
  const double over_a = kUp / a, over_b = 1 / b;
  for (const Row& r : step.rows) {
    const double gain = std::max(r.most * over_a - r.weight, 0.0),
                 loss = std::max(r.weight * kUp - r.low * over_b, 0.0);
    gains += gain;
    losses += loss;
    for (size_t i = 0; i < kMeans; ++i) means[i] += std::max(kShares[i] * gain, (1 - kShares[i]) * loss);
    carried += std::max(gain * (r.norm + r.error), loss * r.norm);
  }
  Moved m;
  m.mass = least(gains, least(losses, 1.0));
  for (const double mean : means) m.mass = least(mean, m.mass);
  m.mass = up(m.mass, step.rows.size());
  m.output = least(up(carried, step.rows.size()), m.mass * (2 * step.largest_norm + step.largest_error));
  return m;
}

/// The largest over every normaliser there can be: the range is cut where the bound is largest, some times.
Moved most_moved(const Step& step) {
  constexpr int kCuts = 16;
  struct Part {
    double a, b;
    Moved moved;
  };
  const auto part = [&](double a, double b) { return Part{a, b, move_between(step, a, b)}; };
  const auto better = [](const Part& x, const Part& y) { return x.moved.output < y.moved.output; };
  std::vector<Part> parts = {part(step.low, step.high)};
  for (int i = 0; i < kCuts; ++i) {
    const auto worst = std::max_element(parts.begin(), parts.end(), better);
    const double a = worst->a, b = worst->b, middle = std::sqrt(a) * std::sqrt(b);
    if (!(middle > a && middle < b)) break;
    *worst = part(a, middle);
    parts.push_back(part(middle, b));
  }
  Moved most;
  for (const Part& p : parts) {
    most.mass = greatest(most.mass, p.moved.mass);
    most.output = greatest(most.output, p.moved.output);
  }
  return most;
}

bool same_lengths(const StepErrors& s) {
  const size_t n = s.weight.size();
  return s.logit_error.size() == n && s.value_error.size() == n && s.value_norm.size() == n;
}

}  // namespace

Result<StepCertificate> certify_step(const StepErrors& s) {
  const size_t n = s.weight.size();
  if (!same_lengths(s)) return invalid_argument("certificate: errors of another length than the %zu weights", n);
  double total = 0;
  for (float w : s.weight) total += static_cast<double>(w);
  if (!(total > 0 && total < kInf)) return invalid_argument("certificate: weights add up to %g, want > 0", total);
  const Step step = widen(s, total);
  const Moved most = most_moved(step);
  StepCertificate c;
  c.hidden = step.hidden;
  const double by_largest = std::tanh(step.largest_logit / 2) + margin(n);
  c.l1 = 2 * least(most.mass, least(by_largest, 1.0));
  const double by_mass = c.l1 / 2 * (2 * step.largest_norm + step.largest_error);
  c.output = up(step.direct + least(most.output, by_mass), n);
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
  c.l1 = least(2 * std::tanh(s.as_published ? s.logit_error : s.logit_error / 2) + margin(n), 2.0);
  c.hidden = up(std::expm1(s.logit_error), n);
  c.output = up(direct / total + s.v_max * c.l1, n);
  if (std::isnan(c.output)) c.output = kInf;
  return c;
}

}  // namespace vestige::anchor
