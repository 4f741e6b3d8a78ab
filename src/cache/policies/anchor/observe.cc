#include "cache/policies/anchor/observe.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/load_number.h"

namespace vestige::anchor {

namespace {

constexpr int64_t kTile = 512;  // tokens widened and turned at a time

/// logits = scale q . R_t k_t.
Status score_keys(const HeadTokens& head, const LayerTokens& tokens, std::vector<float>* logits, Stream& stream) {
  const int64_t n = head.key.dim(0), d = head.key.dim(1), m = head.q.dim(0);
  const int64_t n_pairs = tokens.frequencies.data != nullptr ? tokens.frequencies.dim(0) : 0;
  std::vector<float> tile(static_cast<size_t>(kTile * d)), scores(static_cast<size_t>(m * kTile));
  std::vector<int32_t> positions(static_cast<size_t>(kTile));
  logits->resize(static_cast<size_t>(m * n));
  for (int64_t begin = 0; begin < n; begin += kTile) {
    const int64_t count = std::min(kTile, n - begin);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < d; ++j) {
        tile[static_cast<size_t>(i * d + j)] =
            load_number(head.key.data, head.key.dtype, (begin + i) * head.key.stride[0] + j);
      }
    }
    if (n_pairs > 0) {
      std::iota(positions.begin(), positions.end(), static_cast<int32_t>(begin));
      TensorView x(tile.data(), DType::kF32, {count, 1, 2 * n_pairs});
      x.stride[0] = x.stride[1] = d;
      VESTIGE_TRY(ops::rotate({.x = x,
                               .positions = {positions.data(), DType::kI32, {count}},
                               .frequencies = tokens.frequencies,
                               .interleaved = tokens.interleaved},
                              stream));
    }
    VESTIGE_TRY(ops::matmul(
        {.x = head.q, .w = {tile.data(), DType::kF32, {count, d}}, .out = {scores.data(), DType::kF32, {m, count}}},
        stream));
    for (int64_t w = 0; w < m; ++w) {
      for (int64_t i = 0; i < count; ++i) {
        (*logits)[static_cast<size_t>(w * n + begin + i)] = tokens.scale * scores[static_cast<size_t>(w * count + i)];
      }
    }
  }
  return {};
}

void softmax(const float* logits, int64_t n_seen, float* weights) {
  const float top = *std::max_element(logits, logits + n_seen);
  double sum = 0;
  for (int64_t t = 0; t < n_seen; ++t) {
    weights[t] = std::exp(logits[t] - top);
    sum += static_cast<double>(weights[t]);
  }
  for (int64_t t = 0; t < n_seen; ++t) weights[t] = static_cast<float>(static_cast<double>(weights[t]) / sum);
}

}  // namespace

Result<Observed> observe(const HeadTokens& head, const LayerTokens& tokens, bool with_outputs, Stream& stream) {
  const int64_t n = head.key.dim(0), d = head.key.dim(1), m = head.q.dim(0);
  Observed seen;
  VESTIGE_TRY(score_keys(head, tokens, &seen.logits, stream));
  seen.weights.assign(static_cast<size_t>(m * n), 0.0f);
  seen.outputs.resize(static_cast<size_t>(with_outputs ? m * d : 0));
  for (int64_t w = 0; w < m; ++w) {
    const int64_t position = tokens.q_positions.as<int32_t>()[w];
    if (position < 0 || position >= n) {
      return invalid_argument("anchor: a query at position %lld, want 0 to %lld", static_cast<long long>(position),
                              static_cast<long long>(n - 1));
    }
    float* weights = seen.weights.data() + w * n;
    softmax(seen.logits.data() + w * n, position + 1, weights);
    if (!with_outputs) continue;
    std::vector<double> out(static_cast<size_t>(d), 0.0);
    for (int64_t t = 0; t <= position; ++t) {
      const auto a = static_cast<double>(weights[t]);
      for (int64_t j = 0; j < d; ++j) {
        out[static_cast<size_t>(j)] +=
            a * static_cast<double>(load_number(head.value.data, head.value.dtype, t * head.value.stride[0] + j));
      }
    }
    for (int64_t j = 0; j < d; ++j)
      seen.outputs[static_cast<size_t>(w * d + j)] = static_cast<float>(out[static_cast<size_t>(j)]);
  }
  return seen;
}

void forget_near(int64_t n_near, const LayerTokens& tokens, Observed* seen) {
  const int64_t n = tokens.heads[0].key.dim(0), m = tokens.q_positions.dim(0), n_cut = std::min(n_near, n / 4);
  for (int64_t w = 0; w < m; ++w) {
    const int64_t n_seen = tokens.q_positions.as<int32_t>()[w] + 1;
    float* weights = seen->weights.data() + w * n;
    std::fill(weights + std::max<int64_t>(0, n_seen - n_cut), weights + n_seen, 0.0f);
  }
}

std::vector<float> mean_weights(const Observed& seen, int64_t m, int64_t n_tokens, int64_t n) {
  std::vector<double> sums(static_cast<size_t>(n), 0.0);
  for (int64_t w = 0; w < m; ++w) {
    for (int64_t t = 0; t < n; ++t) {
      sums[static_cast<size_t>(t)] += static_cast<double>(seen.weights[static_cast<size_t>(w * n_tokens + t)]);
    }
  }
  std::vector<float> mean;
  for (double sum : sums) mean.push_back(static_cast<float>(sum / static_cast<double>(std::max<int64_t>(m, 1))));
  return mean;
}

std::vector<float> mean_square_scores(const ConstTensorView& x, const HeadTokens& head, const LayerTokens& tokens) {
  const int64_t n = x.dim(0), d = x.dim(1), m = head.q.dim(0);
  const int64_t n_pairs = tokens.frequencies.data != nullptr ? tokens.frequencies.dim(0) : 0, n_turned = 2 * n_pairs;
  const double share = std::pow(static_cast<double>(tokens.scale), 2) / static_cast<double>(std::max<int64_t>(m, 1));
  const int64_t step = tokens.interleaved ? 2 : 1, apart = tokens.interleaved ? 1 : n_pairs;
  // E (q . R x)^2 of one pair at a uniform angle is |q|^2 |x|^2 / 2, and pairs of different frequency do not mix.
  std::vector<double> pair_energy(static_cast<size_t>(n_pairs), 0.0);
  for (int64_t w = 0; w < m; ++w) {
    const float* q = head.q.as<float>() + w * head.q.stride[0];
    for (int64_t j = 0; j < n_pairs; ++j) {
      const auto a = static_cast<double>(q[j * step]), b = static_cast<double>(q[j * step + apart]);
      pair_energy[static_cast<size_t>(j)] += 0.5 * (a * a + b * b);
    }
  }
  std::vector<float> mean(static_cast<size_t>(n));
  for (int64_t t = 0; t < n; ++t) {
    const float* row = x.as<float>() + t * x.stride[0];
    double sum = 0;
    for (int64_t j = 0; j < n_pairs; ++j) {
      const auto a = static_cast<double>(row[j * step]), b = static_cast<double>(row[j * step + apart]);
      sum += pair_energy[static_cast<size_t>(j)] * (a * a + b * b);
    }
    for (int64_t w = 0; w < m && n_turned < d; ++w) {
      const float* q = head.q.as<float>() + w * head.q.stride[0];
      double product = 0;
      for (int64_t j = n_turned; j < d; ++j) product += static_cast<double>(q[j]) * static_cast<double>(row[j]);
      sum += product * product;
    }
    mean[static_cast<size_t>(t)] = static_cast<float>(sum * share);
  }
  return mean;
}

}  // namespace vestige::anchor
