// The certificate against exact attention in float64: more than a million coded rows in random and adversarial steps,
// without one violation; and that it is tight where the theory says so.

#include "cache/policies/anchor/certificate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace vestige::anchor {
namespace {

using Doubles = std::vector<double>;

/// A step with its truth: coded scores and values, and what they should have been.
struct Step {
  Doubles coded_score, exact_score;
  std::vector<Doubles> coded_value, exact_value;
};

struct Truth {
  double l1 = 0, hidden = 0, output = 0;
};

Doubles softmax(const Doubles& s) {
  double top = -HUGE_VAL, sum = 0;
  for (double v : s) top = std::max(top, v);
  Doubles w;
  for (double v : s) sum += w.emplace_back(std::exp(v - top));
  for (double& v : w) v /= sum;
  return w;
}

double norm(const Doubles& x) {
  double sum = 0;
  for (double v : x) sum += v * v;
  return std::sqrt(sum);
}

Doubles minus(const Doubles& a, const Doubles& b) {
  Doubles c = a;
  for (size_t i = 0; i < a.size(); ++i) c[i] -= b[i];
  return c;
}

Doubles mean(const Doubles& weight, const std::vector<Doubles>& value) {
  Doubles out(value[0].size(), 0.0);
  for (size_t t = 0; t < weight.size(); ++t) {
    for (size_t j = 0; j < out.size(); ++j) out[j] += weight[t] * value[t][j];
  }
  return out;
}

float up(double x) { return std::nextafter(static_cast<float>(x), HUGE_VALF); }

/// What the certificate is told, and what it must cover. `loose` multiplies the bounds given.
struct Case {
  std::vector<float> weight, logit_error, value_error, value_norm;
  Truth truth;
  double v_max = 0, mu = 0;
};

Case make_case(const Step& step, double loose) {
  Case c;
  const Doubles coded = softmax(step.coded_score), exact = softmax(step.exact_score);
  double total = 0;
  for (double w : coded) c.weight.push_back(static_cast<float>(w));
  for (float w : c.weight) total += static_cast<double>(w);
  Doubles given;  // the weights as the certificate sees them
  for (float w : c.weight) given.push_back(static_cast<double>(w) / total);
  const Doubles out = mean(given, step.coded_value), exact_out = mean(exact, step.exact_value);
  c.truth.output = norm(minus(out, exact_out));
  for (size_t t = 0; t < coded.size(); ++t) {
    const double e = std::abs(step.coded_score[t] - step.exact_score[t]);
    const double rho = norm(minus(step.coded_value[t], step.exact_value[t]));
    c.logit_error.push_back(e == 0 ? 0.0f : up(loose * e));
    c.value_error.push_back(rho == 0 ? 0.0f : up(loose * rho));
    c.value_norm.push_back(up(norm(minus(step.coded_value[t], out))));
    c.truth.l1 += std::abs(exact[t] - given[t]);
    c.truth.hidden += given[t] * std::expm1(e);
    c.v_max = std::max(c.v_max, norm(step.exact_value[t]) * (1 + 1e-12));
    c.mu = std::max(c.mu, static_cast<double>(c.logit_error.back()));
  }
  return c;
}

// Weights were rounded to float32 with relative error 2^-24; twice that covers their sum, too.
constexpr double kSlack = 0x1p-22;

StepCertificate certify(const Case& c) {
  const auto made = certify_step({c.weight, c.logit_error, c.value_error, c.value_norm, kSlack});
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? *made : StepCertificate();
}

class Draw {
 public:
  explicit Draw(uint64_t seed) : rng_(seed) {}
  double normal() { return normal_(rng_); }
  double uniform() { return std::uniform_real_distribution<double>()(rng_); }
  double log_uniform(double low, double high) { return low * std::pow(high / low, uniform()); }
  size_t below(size_t n) { return rng_() % n; }

 private:
  std::mt19937_64 rng_;
  std::normal_distribution<double> normal_;
};

Step random_step(Draw& draw, size_t n, size_t d) {
  Step s;
  const double sharp = draw.log_uniform(0.1, 20), error = draw.log_uniform(1e-4, 8), rho = draw.log_uniform(1e-4, 3);
  for (size_t t = 0; t < n; ++t) {
    const bool exact = draw.below(4) == 0;
    s.coded_score.push_back(sharp * draw.normal());
    s.exact_score.push_back(s.coded_score[t] + (exact ? 0 : error * draw.normal()));
    s.coded_value.emplace_back();
    s.exact_value.emplace_back();
    for (size_t j = 0; j < d; ++j) {
      s.coded_value[t].push_back(draw.normal());
      s.exact_value[t].push_back(s.coded_value[t][j] + (exact ? 0 : rho * draw.normal()));
    }
  }
  return s;
}

/// Every error at its bound, with the sign that hurts: those of one group grow, the others shrink, and values of the
/// two groups lie apart.
void turn_against(Step* s, Draw& draw) {
  const double mu = draw.log_uniform(1e-3, 5), share = draw.uniform();
  for (size_t t = 0; t < s->coded_score.size(); ++t) {
    const bool grows = draw.uniform() < share;
    s->exact_score[t] = s->coded_score[t] + (grows ? mu : -mu);
    for (double& v : s->coded_value[t]) v = grows ? 1 : -1;
    s->exact_value[t] = s->coded_value[t];
    if (draw.below(2) == 0) continue;
    for (double& v : s->exact_value[t]) v *= 1 + 0.1 * mu;
  }
}

/// One token that the coded step weighs at nothing and the exact one attends, or the other way round.
void hide_one(Step* s, Draw& draw) {
  const size_t t = draw.below(s->coded_score.size());
  const double jump = draw.log_uniform(1, 60);
  (draw.below(2) == 0 ? s->exact_score : s->coded_score)[t] += jump;
  for (double& v : s->exact_value[t]) v *= draw.log_uniform(1, 100);
}

struct Count {
  int64_t n_rows = 0, n_l1 = 0, n_output = 0, n_hidden = 0, n_uniform = 0, n_useful = 0;
};

void count(const Case& c, Count* out) {
  const StepCertificate bound = certify(c);
  out->n_rows += static_cast<int64_t>(c.weight.size());
  // The truth is itself rounded, relative to the values and not to their difference.
  const double rounded = 0x1p-52 * static_cast<double>(c.weight.size()), value_rounded = rounded * (1 + 2 * c.v_max);
  out->n_l1 += !(c.truth.l1 <= bound.l1 + rounded);
  out->n_output += !(c.truth.output <= bound.output + value_rounded);
  out->n_hidden += !(c.truth.hidden <= bound.hidden);
  out->n_useful += bound.l1 < 1;
  for (const bool as_published : {false, true}) {
    const auto uniform = certify_uniform({c.weight, c.value_error, c.mu + kSlack, c.v_max, as_published});
    ASSERT_TRUE(uniform.ok());
    out->n_uniform += !(c.truth.output <= uniform->output + value_rounded) || !(c.truth.l1 <= uniform->l1 + rounded);
  }
}

TEST(Certificate, HoldsOnEveryCase) {
  Count all;
  Draw draw(1);
  for (int i = 0; i < 4000; ++i) {
    const size_t n = 1 + draw.below(200), d = 1 + draw.below(8);
    for (const double loose : {1.0, 1.0, 1.5}) {
      Step step = random_step(draw, n, d);
      if (i % 4 == 1) turn_against(&step, draw);
      if (i % 4 == 2) hide_one(&step, draw);
      if (i % 4 == 3) {
        for (int j = 0; j < 3; ++j) hide_one(&step, draw);
      }
      count(make_case(step, loose), &all);
    }
  }
  EXPECT_GT(all.n_rows, 1000000);
  EXPECT_EQ(all.n_l1, 0);
  EXPECT_EQ(all.n_output, 0);
  EXPECT_EQ(all.n_hidden, 0);
  EXPECT_EQ(all.n_uniform, 0);
  EXPECT_GT(all.n_useful, 2000);  // and it says something
}

// A million steps of a few rows: where every row matters.
TEST(Certificate, HoldsOnAMillionSmallSteps) {
  Count all;
  Draw draw(2);
  for (int i = 0; i < 1000000; ++i) {
    Step step = random_step(draw, 1 + draw.below(4), 1 + draw.below(2));
    if (i % 4 == 1) turn_against(&step, draw);
    if (i % 4 >= 2) hide_one(&step, draw);
    count(make_case(step, 1), &all);
  }
  EXPECT_EQ(all.n_l1, 0);
  EXPECT_EQ(all.n_output, 0);
  EXPECT_EQ(all.n_hidden, 0);
  EXPECT_EQ(all.n_uniform, 0);
  EXPECT_GT(all.n_useful, 300000);
}

// The largest ||a - a^||_1 under |error| <= mu is 2 tanh(mu / 2): with half of the mass at +mu and half at -mu it is
// tanh(mu), and the worst start, a mass of 1 / (1 + e^mu), reaches the bound.
TEST(Certificate, ConstantOfTheoremOneIsSharp) {
  for (const double mu : {0.01, 0.3, 1.0, 3.0}) {
    for (const double grows : {0.5, 1 / (1 + std::exp(mu))}) {
      Step s;
      s.coded_score = {std::log(grows), std::log(1 - grows)};
      s.exact_score = {std::log(grows) + mu, std::log(1 - grows) - mu};
      s.coded_value = s.exact_value = {{1}, {-1}};
      const Case c = make_case(s, 1);
      const double bound = certify(c).l1;
      EXPECT_NEAR(c.truth.l1, grows == 0.5 ? std::tanh(mu) : 2 * std::tanh(mu / 2), 1e-6) << mu;
      EXPECT_LE(c.truth.l1, bound);
      EXPECT_NEAR(bound, 2 * std::tanh(mu / 2), 1e-6) << mu;
    }
  }
}

// A weight that float32 made zero is not nothing if its logit may be off by more.
TEST(Certificate, HiddenBehindAZeroWeight) {
  Step s;
  s.coded_score = {0, -200, -1};
  s.exact_score = {0, 10, -1};
  s.coded_value = s.exact_value = {{1}, {-1}, {0.5}};
  const Case c = make_case(s, 1);
  EXPECT_EQ(c.weight[1], 0);
  EXPECT_GT(c.truth.l1, 1.9);
  const StepCertificate bound = certify(c);
  EXPECT_LE(c.truth.l1, bound.l1);
  EXPECT_LE(c.truth.output, bound.output);
}

TEST(Certificate, HandWorked) {
  // Two rows of weight 1/2, the first off by log 2 at most: its exact weight is 1/3 to 2/3.
  const std::vector<float> weight = {0.5f, 0.5f}, error = {up(std::log(2.0)), 0}, zero = {0, 0}, one = {1, 1};
  auto c = certify_step({weight, error, zero, one, 0});
  ASSERT_TRUE(c.ok());
  // Whatever the exact normaliser, no more than 1/6 moves from one to the other, by a distance of at most 2. The bound
  // does not know that the second row's weight follows from the first one's; by tanh alone it is 2/3.
  EXPECT_GE(c->l1, 1.0 / 3);
  EXPECT_LT(c->l1, 0.5);
  EXPECT_NEAR(c->hidden, 0.5, 1e-6);
  EXPECT_GE(c->output, 1.0 / 3);
  EXPECT_LT(c->output, 0.5);
  c = certify_uniform({weight, one, std::log(2.0), 3.0});
  ASSERT_TRUE(c.ok());
  EXPECT_NEAR(c->output, 1 + 3 * 2.0 / 3, 1e-9);
  c = certify_uniform({weight, one, std::log(2.0), 3.0, true});
  ASSERT_TRUE(c.ok());
  EXPECT_NEAR(c->output, 1 + 3 * 2 * 0.6, 1e-9);  // tanh(log 2) = 3/5
  c = certify_step({weight, zero, zero, one, 0});
  ASSERT_TRUE(c.ok());
  EXPECT_LT(c->l1, 1e-12);
  EXPECT_LT(c->output, 1e-12);
}

TEST(Certificate, NoBoundIsTheTrivialOne) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const std::vector<float> weight = {0.9f, 0.1f, 0.0f}, zero = {0, 0, 0}, one = {1, 1, 1};
  for (const std::vector<float>& error :
       {std::vector<float>{0, 0, inf}, {0, nan, 0.1f}, {nan, 0.1f, 0}, {inf, inf, inf}}) {
    const auto c = certify_step({weight, error, zero, one, 0});
    ASSERT_TRUE(c.ok());
    EXPECT_EQ(c->l1, 2);
    EXPECT_FALSE(c->hidden < 1e300);
    EXPECT_NEAR(c->output, 2, 1e-9);
    const auto value = certify_step({weight, zero, error, one, 0});
    ASSERT_TRUE(value.ok());
    EXPECT_EQ(value->output, static_cast<double>(inf));
  }
  EXPECT_FALSE(certify_step({weight, one, one, {}, 0}).ok());
  EXPECT_FALSE(certify_step({zero, zero, zero, zero, 0}).ok());
  EXPECT_FALSE(certify_step({{}, {}, {}, {}, 0}).ok());
  EXPECT_FALSE(certify_uniform({weight, {}, 1, 1}).ok());
}

}  // namespace
}  // namespace vestige::anchor
