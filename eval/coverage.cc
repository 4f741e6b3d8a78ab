#include "eval/coverage.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "cache/policies/anchor/certificate.h"
#include "eval/attend_row.h"

namespace vestige::eval {

namespace {

constexpr double kAttended = 0.05;    // of the coded tokens, those that weigh most, are what a step attends
constexpr int64_t kFewestPlain = 16;  // tokens without more than anchor and coefficient, for a median of them
constexpr double kRounding = 1e-5;    // of float32 sums; bounds speak of exact arithmetic
constexpr double kFarCosine = 0.7, kNearCosine = 0.85, kLargeRatio = 3, kLargeMu = 0.2;  // of the reviewer

// Numbers that the verdicts read.
constexpr char kWorstCosine[] = "attended tokens, worst cosine";
constexpr char kOverMedian[] = "attended tokens, key error, most over median of a head";
constexpr char kMostMu[] = "mu, most";
constexpr char kByValues[] = "output error by values alone, mean";
constexpr char kByWeights[] = "output error by weights alone, mean";
constexpr char kCapped[] = "heads and steps, certified no better than the cap";
constexpr char kBreakPublished[] = "heads and steps that break Theorem 1 as published";
constexpr char kBreakSharp[] = "heads and steps that break Theorem 1";
constexpr char kBreakStep[] = "heads and steps that break the per-step bound";
constexpr char kBreakCertificate[] = "layer-steps that break their certificate";

using Doubles = std::vector<double>;

double dot(const double* x, const double* y, int64_t d) { return std::inner_product(x, x + d, y, 0.0); }
double norm(const double* x, int64_t d) { return std::sqrt(dot(x, x, d)); }
double distance(const double* x, const double* y, int64_t d) {
  double sum = 0;
  for (int64_t j = 0; j < d; ++j) sum += (x[j] - y[j]) * (x[j] - y[j]);
  return std::sqrt(sum);
}

float up(double x) { return std::nextafter(static_cast<float>(x), HUGE_VALF); }

/// The rows of one layer's cache, exact and as they are attended, and what lies between them.
struct Rows {
  int64_t n = 0, d = 0, d_value = 0, key_at = 0;
  Doubles exact, coded;                              // [n, d]
  Doubles key_error, value_error, key_norm, cosine;  // [n]
  std::vector<float> value_norm;                     // [n] of coded values, rounded up
  std::vector<uint8_t> finely, is_coded;             // [n]
  double largest_value = 0, largest_key_error = 0;

  /// Of row t, the next one.
  void add_errors(int64_t t) {
    const double *x = exact.data() + t * d, *y = coded.data() + t * d;
    const int64_t d_key = d - key_at;
    is_coded.push_back(std::equal(x, x + d, y) ? 0 : 1);
    key_error.push_back(distance(x + key_at, y + key_at, d_key));
    value_error.push_back(distance(x, y, d_value));
    key_norm.push_back(norm(x + key_at, d_key));
    value_norm.push_back(up(norm(y, d_value)));
    const double lengths = key_norm.back() * norm(y + key_at, d_key);
    cosine.push_back(lengths > 0 ? dot(x + key_at, y + key_at, d_key) / lengths : 0);
    largest_value = std::max(largest_value, norm(x, d_value));
    largest_key_error = std::max(largest_key_error, key_error.back());
  }
  /// A row of the tail.
  void add_exact(const std::vector<float>& row) {
    exact.insert(exact.end(), row.begin(), row.end());
    coded.insert(coded.end(), row.begin(), row.end());
    finely.push_back(1);
    add_errors(n++);
  }
};

double median(Doubles x) {
  if (x.empty()) return 0;
  std::nth_element(x.begin(), x.begin() + static_cast<int64_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

double quantile(Doubles x, double at) {
  if (x.empty()) return 0;
  std::sort(x.begin(), x.end());
  return x[static_cast<size_t>(at * static_cast<double>(x.size() - 1))];
}

Result<Rows> gather(const LayerCache& cache, const WideRows& exact, Stream& stream) {
  Rows r;
  r.n = cache.n_rows();
  r.d = cache.layout().d_row();
  r.d_value = cache.layout().d_content;
  r.key_at = cache.layout().scored_begin();
  std::vector<float> coded(static_cast<size_t>(r.n * r.d));
  r.finely.resize(static_cast<size_t>(r.n));
  const Status rebuilt = cache.rebuild(
      {.rows = {coded.data(), DType::kF32, {r.n, r.d}}, .finely = {r.finely.data(), DType::kU8, {r.n}}}, stream);
  if (!rebuilt.ok()) return rebuilt.with_context("coverage of policy " + cache.policy().config().name);
  r.coded.assign(coded.begin(), coded.end());
  for (int64_t t = 0; t < r.n; ++t) {
    const std::vector<float> row = row_at(exact, cache.layout(), t);
    r.exact.insert(r.exact.end(), row.begin(), row.end());
    r.add_errors(t);
  }
  return r;
}

/// softmax of scale q . key over all rows.
Doubles weights_of(const Rows& r, const Doubles& rows, const double* q, double scale) {
  Doubles w;
  double top = -HUGE_VAL, sum = 0;
  for (int64_t t = 0; t < r.n; ++t) {
    w.push_back(scale * dot(q, rows.data() + t * r.d + r.key_at, r.d - r.key_at));
    top = std::max(top, w.back());
  }
  for (double& x : w) sum += x = std::exp(x - top);
  for (double& x : w) x /= sum;
  return w;
}

Doubles output_of(const Rows& r, const Doubles& rows, const Doubles& weight) {
  Doubles y(static_cast<size_t>(r.d_value), 0.0);
  for (size_t t = 0; t < weight.size(); ++t) {
    for (int64_t j = 0; j < r.d_value; ++j)
      y[static_cast<size_t>(j)] += weight[t] * rows[t * static_cast<size_t>(r.d) + static_cast<size_t>(j)];
  }
  return y;
}

/// Sums and lists over layers, steps and heads. Errors and bounds are relative to the longest value of the cache.
struct Tally {
  Doubles key_error, mu, variation, error, published, sharp, step, step_mass;
  double certified = 0, value_term = 0, weight_term = 0;
  double worst_cosine = 1, ratio = 0, variation_most = 0;
  int64_t n_published = 0, n_sharp = 0, n_step = 0, n_layer_steps = 0, n_broken = 0, n_capped = 0, n_heads = 0;
};

/// One query of one head against exact attention: its error, and bounds that know the true error norms.
struct Compared {
  double error = 0;
  Doubles coded_weight;
};

Result<Compared> compare_head(const Rows& r, const float* q_row, const float* out, double scale, Tally* tally) {
  const Doubles q(q_row + r.key_at, q_row + r.d);
  Compared c;
  c.coded_weight = weights_of(r, r.coded, q.data(), scale);
  const Doubles weight = weights_of(r, r.exact, q.data(), scale);
  const Doubles y = output_of(r, r.exact, weight), coded_y = output_of(r, r.coded, c.coded_weight);
  const Doubles halfway = output_of(r, r.exact, c.coded_weight), got(out, out + r.d_value);
  const double q_norm = norm(q.data(), static_cast<int64_t>(q.size())), mu = scale * q_norm * r.largest_key_error;
  std::vector<float> w, e, v, by_output;
  double l1 = 0;
  for (size_t t = 0; t < weight.size(); ++t) {
    l1 += std::abs(weight[t] - c.coded_weight[t]);
    w.push_back(static_cast<float>(c.coded_weight[t]));
    e.push_back(r.key_error[t] == 0 ? 0.0f : up(scale * q_norm * r.key_error[t]));
    v.push_back(r.value_error[t] == 0 ? 0.0f : up(r.value_error[t]));
    const double* coded = r.coded.data() + t * static_cast<size_t>(r.d);
    by_output.push_back(up(distance(coded, coded_y.data(), r.d_value)));
  }
  constexpr double kSlack = 0x1p-22;  // of weights in float32
  VESTIGE_ASSIGN(const auto published, anchor::certify_uniform({w, v, mu, r.largest_value, true}));
  VESTIGE_ASSIGN(const auto sharp, anchor::certify_uniform({w, v, mu, r.largest_value, false}));
  VESTIGE_ASSIGN(const auto near, anchor::certify_step({w, e, v, by_output, kSlack}));
  VESTIGE_ASSIGN(const auto far, anchor::certify_step({w, e, v, r.value_norm, kSlack}));
  const double step = std::min(near.output, far.output), exact_error = distance(y.data(), coded_y.data(), r.d_value);
  c.error = distance(y.data(), got.data(), r.d_value);
  const double unit = r.largest_value, rounding = 1e-9 * unit;
  tally->mu.push_back(mu);
  tally->variation.push_back(l1 / 2);
  tally->error.push_back(c.error / unit);
  tally->published.push_back(published.output / unit);
  tally->sharp.push_back(sharp.output / unit);
  tally->step.push_back(step / unit);
  tally->step_mass.push_back(std::min(near.l1, far.l1) / 2);
  tally->n_published += exact_error > published.output + rounding ? 1 : 0;
  tally->n_sharp += exact_error > sharp.output + rounding || l1 > sharp.l1 + 1e-9 ? 1 : 0;
  tally->n_step += exact_error > step + rounding || l1 > near.l1 + 1e-9 ? 1 : 0;
  tally->value_term += distance(halfway.data(), coded_y.data(), r.d_value) / unit;
  tally->weight_term += distance(halfway.data(), y.data(), r.d_value) / unit;
  ++tally->n_heads;
  return c;
}

/// Adds the coded tokens that weigh most among the coded ones.
void add_attended(const Rows& r, const Doubles& weight, std::set<int64_t>* attended) {
  std::vector<int64_t> ids;
  for (int64_t t = 0; t < static_cast<int64_t>(weight.size()); ++t) {
    if (r.is_coded[static_cast<size_t>(t)] != 0) ids.push_back(t);
  }
  const auto n = static_cast<int64_t>(std::ceil(kAttended * static_cast<double>(ids.size())));
  const auto heavier = [&](int64_t a, int64_t b) {
    const double x = weight[static_cast<size_t>(a)], y = weight[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::nth_element(ids.begin(), ids.begin() + std::max<int64_t>(n - 1, 0), ids.end(), heavier);
  attended->insert(ids.begin(), ids.begin() + n);
}

void add_layer(const Rows& r, const std::set<int64_t>& attended, Tally* tally) {
  Doubles plain;
  double most = 0;
  for (const int64_t u : attended) {
    const auto t = static_cast<size_t>(u);
    if (r.key_norm[t] > 0) tally->key_error.push_back(r.key_error[t] / r.key_norm[t]);
    tally->worst_cosine = std::min(tally->worst_cosine, r.cosine[t]);
    most = std::max(most, r.key_error[t]);
    if (r.finely[t] == 0) plain.push_back(r.key_error[t]);
  }
  const double middle = median(plain);
  if (middle > 0 && static_cast<int64_t>(plain.size()) >= kFewestPlain)
    tally->ratio = std::max(tally->ratio, most / middle);
}

Numbers numbers_of(const Tally& t) {
  const auto mean = [](const Doubles& x) {
    return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(std::max<size_t>(x.size(), 1));
  };
  const auto most = [](const Doubles& x) { return x.empty() ? 0.0 : *std::max_element(x.begin(), x.end()); };
  const auto n = static_cast<double>(std::max<int64_t>(t.n_heads, 1));
  return {{"attended tokens, key error, most", most(t.key_error)},
          {"attended tokens, key error, p99", quantile(t.key_error, 0.99)},
          {"attended tokens, key error, median", median(t.key_error)},
          {kOverMedian, t.ratio},
          {kWorstCosine, t.worst_cosine},
          {kMostMu, most(t.mu)},
          {"mu, median", median(t.mu)},
          {"total variation, mean", mean(t.variation)},
          {"total variation, most", most(t.variation)},
          {"total variation, per-step bound, mean", mean(t.step_mass)},
          {"output error, mean", mean(t.error)},
          {"output error, most", most(t.error)},
          {kByValues, t.value_term / n},
          {kByWeights, t.weight_term / n},
          {"Theorem 1 as published, mean", mean(t.published)},
          {"Theorem 1, tanh(mu / 2), mean", mean(t.sharp)},
          {"per-step bound by true norms, mean", mean(t.step)},
          {"per-step bound by true norms, median", median(t.step)},
          {"certified by the policy, mean", t.certified / static_cast<double>(std::max<int64_t>(t.n_layer_steps, 1))},
          {"heads and steps", static_cast<double>(t.n_heads)},
          {kCapped, static_cast<double>(t.n_capped)},
          {kBreakPublished, static_cast<double>(t.n_published)},
          {kBreakSharp, static_cast<double>(t.n_sharp)},
          {kBreakStep, static_cast<double>(t.n_step)},
          {kBreakCertificate, static_cast<double>(t.n_broken)}};
}

/// The steps of one layer's cache. Rows that close meanwhile are compared as they were first attended.
Status measure_layer(LayerCache& cache, const Reading::Layer& layer, int64_t n_queries, Tally* tally, Stream& stream) {
  const RowLayout& layout = layer.cache->layout();
  const int64_t h = layer.cache->h_q(), d_row = layout.d_row(), d = layout.d_content;
  const WideRows wide = widen_rows(*layer.cache);
  const double scale = static_cast<double>(cache.scale());
  std::set<int64_t> attended;
  Rows rows;
  int64_t n_closed = -1;
  for (int64_t t = 0; t < n_queries; ++t) {
    const int64_t u = layer.cache->n_rows() - n_queries + t;
    const float* q = layer.queries.data() + t * h * d_row;
    VESTIGE_ASSIGN(const AttendedRow got,
                   attend_row(cache, wide, u, ConstTensorView(q, DType::kF32, {1, h, d_row}), stream));
    if (cache.n_closed() == n_closed) {
      rows.add_exact(row_at(wide, layout, u));
    } else {  // codes are read anew
      if (n_closed >= 0) add_layer(rows, attended, tally);
      attended.clear();
      n_closed = cache.n_closed();
      VESTIGE_ASSIGN(rows, gather(cache, wide, stream));
    }
    double worst = 0;
    for (int64_t head = 0; head < h; ++head) {
      VESTIGE_ASSIGN(const Compared c, compare_head(rows, q + head * d_row, got.out.data() + head * d, scale, tally));
      worst = std::max(worst, c.error);
      add_attended(rows, c.coded_weight, &attended);
    }
    ++tally->n_layer_steps;
    tally->n_capped += got.record.n_capped;
    tally->certified += got.record.error_sum;
    tally->n_broken += worst > (got.record.error_max + kRounding) * rows.largest_value ? 1 : 0;
  }
  add_layer(rows, attended, tally);
  return {};
}

}  // namespace

Result<Numbers> measure_coverage(Context& arm, const Reading& reading, Stream& stream) {
  Tally tally;
  for (size_t i = 0; i < reading.layers.size(); ++i) {
    VESTIGE_TRY(measure_layer(*arm.caches()[i], reading.layers[i], reading.n_queries, &tally, stream));
  }
  return numbers_of(tally);
}

CoverageVerdicts coverage_verdicts(const Numbers& numbers) {
  const auto number = [&](const char* name) {
    const auto found = numbers.find(name);
    return found == numbers.end() ? 0.0 : found->second;
  };
  const double cosine = number(kWorstCosine);
  const bool large = number(kOverMedian) > kLargeRatio && number(kMostMu) > kLargeMu;
  const bool values = number(kByValues) > number(kByWeights);
  CoverageVerdicts v = {"open", "settled"};
  if (cosine < kFarCosine || large) {
    v.reviewer = "violated";
  } else if (cosine > kNearCosine && values) {
    v.reviewer = "settled";
  }
  if (number(kCapped) > 0) v.certificate = "vacuous";
  for (const char* broken : {kBreakPublished, kBreakSharp, kBreakStep, kBreakCertificate}) {
    if (number(broken) > 0) v.certificate = "violated";
  }
  return v;
}

}  // namespace vestige::eval
