// The certified error of a step against float64 attention: more than a million coded rows, random and adversarial, with
// sketches that say something and sketches that say nothing, and without one violation.

#include "cache/policies/anchor/step_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "backend/ops/norm_grid.h"
#include "cache/policies/anchor/coded_layer.h"

namespace vestige::anchor {
namespace {

using Doubles = std::vector<double>;

class Draw {
 public:
  explicit Draw(uint64_t seed) : rng_(seed) {}
  double normal() { return normal_(rng_); }
  double log_uniform(double low, double high) {
    return low * std::pow(high / low, std::uniform_real_distribution<double>()(rng_));
  }
  size_t below(size_t n) { return rng_() % n; }

 private:
  std::mt19937_64 rng_;
  std::normal_distribution<double> normal_;
};

struct Vectors {
  size_t n = 0, d = 0;
  std::vector<float> x;
  const float* row(size_t t) const { return x.data() + t * d; }
};

Vectors draw_vectors(Draw& draw, size_t n, size_t d, double size) {
  Vectors v = {n, d, {}};
  for (size_t i = 0; i < n * d; ++i) v.x.push_back(static_cast<float>(size * draw.normal()));
  return v;
}

double dot(const float* x, const float* y, size_t d) {
  double sum = 0;
  for (size_t j = 0; j < d; ++j) sum += double(x[j]) * double(y[j]);
  return sum;
}

/// The norm of what is left, as a byte keeps it.
float stored(double norm) { return CodedLayer::kBoundBase * norm_grid()[norm_byte(norm, CodedLayer::kBoundBase)]; }

/// Attention of weights exp(score) over rows; log-sum-exp too.
Doubles attention(const Doubles& score, const Vectors& value, double* lse) {
  double top = -HUGE_VAL, sum = 0;
  for (const double s : score) top = std::max(top, s);
  Doubles y(value.d, 0.0);
  for (size_t t = 0; t < score.size(); ++t) {
    const double w = std::exp(score[t] - top);
    sum += w;
    for (size_t j = 0; j < value.d; ++j) y[j] += w * double(value.row(t)[j]);
  }
  for (double& x : y) x /= sum;
  *lse = top + std::log(sum);
  return y;
}

enum Kind { kRandom, kAligned, kHidden, kOneRow, kKinds };

/// Exact keys and values = coded + sketch + rest. Adversarial rests lie along the query and hurt, or hide a row.
struct Case {
  Vectors coded_key, key, sketch, coded_value, value;
  std::vector<float> q;
  Vectors exact_key, exact_value;  // rows attended exactly
};

Case make_case(Draw& draw, size_t n, size_t d, int kind) {
  Case c;
  const double size = draw.log_uniform(0.3, 4), rest = draw.log_uniform(1e-3, 2);
  c.coded_key = draw_vectors(draw, n, d, size);
  c.sketch = draw_vectors(draw, n, d, draw.log_uniform(1e-3, 2));
  c.coded_value = draw_vectors(draw, n, d, 1);
  c.value = draw_vectors(draw, n, d, draw.log_uniform(1e-3, 1));
  c.key = draw_vectors(draw, n, d, rest);
  const Vectors query = draw_vectors(draw, 1, d, draw.log_uniform(0.3, 4));
  c.q = query.x;
  const size_t m = draw.below(4);
  c.exact_key = draw_vectors(draw, m, d, size);
  c.exact_value = draw_vectors(draw, m, d, 1);
  const double q_norm = std::sqrt(dot(c.q.data(), c.q.data(), d));
  const double share = draw.log_uniform(0.02, 1);
  const size_t hidden = draw.below(n);
  for (size_t t = 0; t < n; ++t) {
    const bool grows = double(draw.below(1000)) < 1000 * share;
    for (size_t j = 0; j < d; ++j) {
      float& left = c.key.x[t * d + j];
      if (kind == kAligned) left = float((grows ? rest : -rest) * double(c.q[j]) / q_norm);
      if (kind == kAligned) c.coded_value.x[t * d + j] = grows ? 1 : -1;
      if (kind == kHidden && t == hidden) left = float(20 * rest * double(c.q[j]) / q_norm);
      if (kind == kOneRow && t != hidden) c.coded_key.x[t * d + j] -= 3 * c.q[j];
      left += c.coded_key.x[t * d + j] + c.sketch.x[t * d + j];
      c.value.x[t * d + j] += c.coded_value.x[t * d + j];
    }
  }
  return c;
}

struct Outcome {
  double error = 0, bound = 0, cap = 0;
};

Outcome check(const Case& c, double scale, bool sketched) {
  const size_t n = c.key.n, d = c.key.d;
  std::vector<float> score, correction, key_bound, value_bound;
  Doubles coded_score, exact_score, other;
  double longest = 0;
  const Doubles zero(d, 0.0);
  for (size_t t = 0; t < n; ++t) {
    coded_score.push_back(scale * dot(c.q.data(), c.coded_key.row(t), d));
    exact_score.push_back(scale * dot(c.q.data(), c.key.row(t), d));
    score.push_back(float(coded_score.back()));
    correction.push_back(sketched ? float(scale * dot(c.q.data(), c.sketch.row(t), d)) : 0.0f);
    double key = 0, value = 0, size = 0;
    for (size_t j = 0; j < d; ++j) {
      const double told = double(c.coded_key.row(t)[j]) + (sketched ? double(c.sketch.row(t)[j]) : 0.0);
      key += std::pow(double(c.key.row(t)[j]) - told, 2);
      value += std::pow(double(c.value.row(t)[j]) - double(c.coded_value.row(t)[j]), 2);
      size += std::pow(double(c.key.row(t)[j]), 2) + std::pow(double(c.coded_key.row(t)[j]), 2);
    }
    // As write_bounds(): what float32 scores round comes on top.
    key_bound.push_back(stored(std::sqrt(key) + double(d + 32) * 0x1p-24 * 2 * std::sqrt(size)));
    value_bound.push_back(stored(std::sqrt(value)));
    longest = std::max({longest, std::sqrt(dot(c.value.row(t), c.value.row(t), d))});
  }
  for (size_t t = 0; t < c.exact_key.n; ++t) other.push_back(scale * dot(c.q.data(), c.exact_key.row(t), d));
  double coded_lse = 0, exact_lse = -HUGE_VAL, lse = 0;
  const Doubles coded = attention(coded_score, c.coded_value, &coded_lse);
  const Doubles exact = other.empty() ? zero : attention(other, c.exact_value, &exact_lse);
  Vectors all = c.value, all_coded = c.coded_value;
  for (Vectors* v : {&all, &all_coded}) v->x.insert(v->x.end(), c.exact_value.x.begin(), c.exact_value.x.end());
  exact_score.insert(exact_score.end(), other.begin(), other.end());
  coded_score.insert(coded_score.end(), other.begin(), other.end());
  const Doubles want = attention(exact_score, all, &lse), got = attention(coded_score, all_coded, &lse);
  const std::vector<float> coded_f(coded.begin(), coded.end()), exact_f(exact.begin(), exact.end());
  const auto bound = bound_step({.score = score,
                                 .correction = sketched ? std::span<const float>(correction) : std::span<const float>(),
                                 .key_bound = key_bound,
                                 .value_bound = value_bound,
                                 .value = c.coded_value.x,
                                 .d = int64_t(d),
                                 .reach = scale * std::sqrt(dot(c.q.data(), c.q.data(), d)) * (1 + 1e-12),
                                 .coded = coded_f.data(),
                                 .coded_lse = float(coded_lse),
                                 .exact = exact_f.data(),
                                 .exact_lse = float(exact_lse)});
  EXPECT_TRUE(bound.ok()) << bound.status().message();
  Outcome o;
  double square = 0, size = 0;
  for (size_t j = 0; j < d; ++j) {
    square += std::pow(want[j] - got[j], 2);
    size += got[j] * got[j];
  }
  o.error = std::sqrt(square);
  o.bound = bound.ok() ? *bound : 0;
  o.cap = longest + std::sqrt(size);
  return o;
}

TEST(StepBound, HoldsOnEveryCase) {
  Draw draw(3);
  int64_t n_rows = 0, n_steps = 0, n_broken = 0, n_useful[2] = {0, 0};
  double tightest = 0;
  for (int i = 0; n_rows < 1100000; ++i) {
    const size_t n = 1 + draw.below(300), d = 4 + draw.below(13);
    const Case c = make_case(draw, n, d, i % kKinds);
    for (const bool sketched : {true, false}) {
      const Outcome o = check(c, 1 / std::sqrt(double(d)), sketched);
      n_rows += int64_t(n);
      ++n_steps;
      n_broken += !(o.error <= o.bound);
      n_useful[sketched ? 1 : 0] += o.bound < o.cap;
      tightest = std::max(tightest, o.error / o.bound);
    }
  }
  EXPECT_EQ(n_broken, 0) << "of " << n_steps;
  EXPECT_GT(n_useful[1], n_steps / 8);
  EXPECT_GT(n_useful[1], n_useful[0] * 11 / 10);  // what sketches are for
  EXPECT_GT(tightest, 0.5);                       // and no slack hides a fault
  RecordProperty("rows", std::to_string(n_rows));
}

TEST(StepBound, MissingBoundsAreInfinite) {
  Draw draw(4);
  Case c = make_case(draw, 20, 8, kRandom);
  c.value.x[3] = 1e30f;  // past the grid: byte 255
  EXPECT_EQ(check(c, 0.3, true).bound, HUGE_VAL);
}

}  // namespace
}  // namespace vestige::anchor
