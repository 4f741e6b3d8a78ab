#include "cache/policies/klt/sensitivity.h"

#include <algorithm>
#include <cmath>

#include "cache/key_turn.h"
#include "vestige/ops.h"

namespace vestige::klt {

namespace {

constexpr int64_t kQueries = 256;  // tokens whose queries are looked at, evenly among those at hand
/// Rows this near to a query do not count: for almost all rows, whoever asks later is farther away, and what heads that
/// look at their neighbours need of them is in the open tail. Of a short document a quarter: some must count.
int64_t near_rows(int64_t n_near, int64_t n_rows) { return std::min(n_near, n_rows / 4); }

/// A factor R of the metric's average over heads, so that ||R^T (v - y)||^2 is what a value's distance weighs.
std::vector<double> factor_of(const ConstTensorView& gram, int64_t d, double scale) {
  std::vector<double> r(static_cast<size_t>(d * d), 0.0);
  const auto at = [&](int64_t i, int64_t j) -> double& { return r[static_cast<size_t>(i * d + j)]; };
  for (int64_t j = 0; j < d; ++j) {
    for (int64_t i = j; i < d; ++i) {
      double sum = gram.empty() ? (i == j ? 1.0 : 0.0) : double(gram.as<float>()[i * d + j]) * scale;
      for (int64_t k = 0; k < j; ++k) sum -= at(i, k) * at(j, k);
      if (i == j) {
        at(j, j) = sum > 1e-30 ? std::sqrt(sum) : 0.0;
      } else {
        at(i, j) = at(j, j) > 0 ? sum / at(j, j) : 0.0;
      }
    }
  }
  return r;
}

/// Values under the factor, turned over, [d + 1, n]: the last row holds the squared lengths.
std::vector<float> value_columns(const HeadRows& rows, const std::vector<double>& factor) {
  const int64_t n = rows.n, d = rows.d;
  std::vector<float> out(static_cast<size_t>((d + 1) * n));
  for (int64_t t = 0; t < n; ++t) {
    const float* v = rows.value.data() + t * d;
    double square = 0;
    for (int64_t j = 0; j < d; ++j) {
      double sum = 0;
      for (int64_t i = j; i < d; ++i) sum += double(v[i]) * factor[static_cast<size_t>(i * d + j)];
      out[static_cast<size_t>(j * n + t)] = static_cast<float>(sum);
      square += sum * sum;
    }
    out[static_cast<size_t>(d * n + t)] = static_cast<float>(square);
  }
  return out;
}

/// What one query tells.
struct Weights {
  double of_key = 0;    ///< sum of a_t^2 |v_t - y|^2 over rows that count
  double of_value = 0;  ///< sum of a_t^2 over them
};

/// Queries of one token, all heads, against all rows it sees.
class Observer {
 public:
  Observer(const HeadRows& rows, std::vector<float> columns, int64_t h, float scale, int64_t n_near)
      : rows_(rows),
        n_near_(near_rows(n_near, rows.n)),
        columns_(std::move(columns)),
        scale_(scale),
        scores_(static_cast<size_t>(h * rows.n)),
        squares_(scores_.size()),
        y_(static_cast<size_t>(h * (rows.d + 1))),
        y2_(y_.size()) {}

  /// @param q [h, d] turned. @param n_seen rows
  Status look(const float* q, int64_t h, int64_t n_seen, std::vector<Weights>* out, Stream& stream) {
    const int64_t n = rows_.n, d = rows_.d;
    const TensorView scores(scores_.data(), DType::kF32, {h, n});
    VESTIGE_TRY(ops::matmul(
        {.x = {q, DType::kF32, {h, d}}, .w = {rows_.key.data(), DType::kF32, {n, d}}, .out = scores}, stream));
    VESTIGE_TRY(stream.synchronize());
    for (int64_t g = 0; g < h; ++g) normalise(g, n_seen);
    const ConstTensorView columns(columns_.data(), DType::kF32, {d + 1, n});
    VESTIGE_TRY(ops::matmul({.x = scores, .w = columns, .out = {y_.data(), DType::kF32, {h, d + 1}}}, stream));
    VESTIGE_TRY(ops::matmul(
        {.x = {squares_.data(), DType::kF32, {h, n}}, .w = columns, .out = {y2_.data(), DType::kF32, {h, d + 1}}},
        stream));
    VESTIGE_TRY(stream.synchronize());
    for (int64_t g = 0; g < h; ++g) (*out)[static_cast<size_t>(g)] = weigh(g, n_seen);
    return {};
  }

 private:
  /// Scores to softmax weights, rows that are not seen to zero.
  void normalise(int64_t g, int64_t n_seen) {
    float* s = scores_.data() + g * rows_.n;
    float* s2 = squares_.data() + g * rows_.n;
    float most = -INFINITY;
    for (int64_t t = 0; t < n_seen; ++t) most = std::max(most, s[t]);
    double sum = 0;
    for (int64_t t = 0; t < n_seen; ++t) sum += double(s[t] = std::exp(scale_ * (s[t] - most)));
    const auto inverse = static_cast<float>(1 / sum);
    for (int64_t t = 0; t < rows_.n; ++t) {
      s[t] = t < n_seen ? s[t] * inverse : 0.0f;
      s2[t] = t < n_seen - n_near_ ? s[t] * s[t] : 0.0f;
    }
  }

  Weights weigh(int64_t g, int64_t n_seen) const {
    const int64_t d = rows_.d;
    const float *y = y_.data() + g * (d + 1), *y2 = y2_.data() + g * (d + 1), *s2 = squares_.data() + g * rows_.n;
    Weights w;
    for (int64_t t = 0; t < n_seen; ++t) w.of_value += double(s2[t]);
    w.of_key = double(y2[d]);
    for (int64_t j = 0; j < d; ++j) w.of_key += double(y[j]) * (double(y[j]) * w.of_value - 2 * double(y2[j]));
    w.of_key = std::max(0.0, w.of_key);
    return w;
  }

  const HeadRows& rows_;
  int64_t n_near_;
  std::vector<float> columns_;
  float scale_;
  std::vector<float> scores_, squares_, y_, y2_;
};

/// A query's part in the key's form. Positions of later queries are not known, so every turned pair counts the same in
/// both coordinates and pairs do not go together; coordinates that are not turned keep their products.
void add_query(const float* q, int64_t d, const KeyRotation& rotation, double weight, std::vector<double>* form) {
  const auto n_pairs = static_cast<int64_t>(rotation.frequencies.size());
  const auto at = [&](int64_t i, int64_t j) -> double& { return (*form)[static_cast<size_t>(i * d + j)]; };
  for (int64_t j = 0; j < n_pairs; ++j) {
    const TurnedPair p = turned_pair(rotation, j);
    const double energy = (double(q[p.a]) * double(q[p.a]) + double(q[p.b]) * double(q[p.b])) / 2;
    at(p.a, p.a) += weight * energy;
    at(p.b, p.b) += weight * energy;
  }
  for (int64_t i = 2 * n_pairs; i < d; ++i) {
    for (int64_t j = 2 * n_pairs; j < d; ++j) at(i, j) += weight * double(q[i]) * double(q[j]);
  }
}

}  // namespace

Result<Sensitivity> measure_sensitivity(const RecallFit& fit, const HeadRows& rows, const KeyRotation& rotation,
                                        const Weighting& weighting, Stream& stream) {
  const int64_t d = rows.d;
  Sensitivity out;
  out.key.assign(static_cast<size_t>(d * d), 0.0);
  out.value.assign(static_cast<size_t>(d * d), 0.0);
  const int64_t n_queries = fit.queries.empty() ? 0 : fit.queries.dim(0);
  if (n_queries == 0) {
    for (int64_t j = 0; j < d; ++j) out.key[size_t(j * (d + 1))] = out.value[size_t(j * (d + 1))] = 1.0;
    return out;
  }
  const int64_t h = fit.queries.dim(1), step = std::max<int64_t>(1, n_queries / kQueries);
  Observer observer(rows, value_columns(rows, factor_of(fit.value_gram, d, 1.0 / double(h))), h, fit.scale,
                    weighting.n_near);
  std::vector<float> q(static_cast<size_t>(h * d));
  std::vector<Weights> weights(static_cast<size_t>(h));
  double of_value = 0;
  int64_t n = 0;
  for (int64_t i = n_queries - 1; i >= 0 && n < kQueries; i -= step, ++n) {
    for (int64_t g = 0; g < h; ++g) {
      std::copy_n(fit.queries.as<float>() + (i * h + g) * 2 * d + d, d, q.data() + g * d);
    }
    const int64_t position = fit.first_position + i;
    VESTIGE_TRY(observer.look(q.data(), h, position + 1, &weights, stream));
    turn_keys(q.data(), h, d, rotation, position, 0, -1);
    for (int64_t g = 0; g < h; ++g) {
      const Weights& w = weights[static_cast<size_t>(g)];
      add_query(q.data() + g * d, d, rotation, w.of_key, &out.key);
      of_value += w.of_value;
    }
  }
  const double of_key = weighting.key * double(fit.scale) * double(fit.scale) / double(n);
  for (double& x : out.key) x *= of_key;
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t j = 0; j < d; ++j) {
      const double gram =
          fit.value_gram.empty() ? (i == j ? double(h) : 0.0) : double(fit.value_gram.as<float>()[i * d + j]);
      out.value[static_cast<size_t>(i * d + j)] = gram * of_value / double(n * h);
    }
  }
  return out;
}

}  // namespace vestige::klt
