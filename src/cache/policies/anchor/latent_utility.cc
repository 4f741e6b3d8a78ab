#include "cache/policies/anchor/latent_utility.h"

#include <algorithm>
#include <cmath>

#include "cache/policies/anchor/utility.h"
#include "vestige/ops.h"

namespace vestige::anchor {

namespace {

ConstTensorView content_of(const ConstTensorView& rows, int64_t d_content) {
  ConstTensorView out(rows.data, DType::kF32, {rows.dim(0), d_content});
  out.stride[0] = rows.stride[0];
  return out;
}

double dot(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += double(a[j]) * double(b[j]);
  return sum;
}

/// x G, or a copy of x without G. @param x [n, d], row stride free
Result<std::vector<float>> times_gram(const ConstTensorView& x, const ConstTensorView& gram, Stream& stream) {
  const int64_t n = x.dim(0), d = x.dim(1);
  std::vector<float> out(static_cast<size_t>(n * d));
  if (gram.empty()) {
    for (int64_t t = 0; t < n; ++t) std::copy_n(x.as<float>() + t * x.stride[0], d, out.data() + t * d);
    return out;
  }
  VESTIGE_TRY(ops::matmul({.x = x, .w = gram, .out = {out.data(), DType::kF32, {n, d}}}, stream));
  VESTIGE_TRY(stream.synchronize());
  return out;
}

/// x^T G x of each row. @param with_gram x G
std::vector<float> squares(const ConstTensorView& x, const std::vector<float>& with_gram) {
  const int64_t n = x.dim(0), d = x.dim(1);
  std::vector<float> out(static_cast<size_t>(n));
  for (int64_t t = 0; t < n; ++t) {
    const double square = dot(x.as<float>() + t * x.stride[0], with_gram.data() + t * d, d);
    out[static_cast<size_t>(t)] = static_cast<float>(std::max(0.0, square));
  }
  return out;
}

/// scale q . x of every query and row. [m, n]
Result<std::vector<float>> scores(const LatentTokens& v, const ConstTensorView& rows, Stream& stream) {
  const int64_t m = v.queries.dim(0), n = rows.dim(0);
  std::vector<float> out(static_cast<size_t>(m * n));
  VESTIGE_TRY(ops::matmul({.x = v.queries, .w = rows, .out = {out.data(), DType::kF32, {m, n}}}, stream));
  VESTIGE_TRY(stream.synchronize());
  for (float& s : out) s *= v.scale;
  return out;
}

/// Contents less the mean of the coded rows': differences alone count. [n_all, d_content]
std::vector<float> centred_contents(const LatentTokens& v, int64_t n) {
  const int64_t n_all = v.rows.dim(0), d = v.d_content;
  std::vector<double> mean(static_cast<size_t>(d));
  for (int64_t t = 0; t < n; ++t) {
    for (int64_t j = 0; j < d; ++j) mean[static_cast<size_t>(j)] += double(v.rows.as<float>()[t * v.rows.dim(1) + j]);
  }
  std::vector<float> out;
  out.reserve(static_cast<size_t>(n_all * d));
  for (int64_t t = 0; t < n_all; ++t) {
    const float* row = v.rows.as<float>() + t * v.rows.dim(1);
    for (int64_t j = 0; j < d; ++j) {
      out.push_back(static_cast<float>(double(row[j]) - mean[static_cast<size_t>(j)] / double(n)));
    }
  }
  return out;
}

void softmax_up_to(float* s, int64_t n, int64_t last) {
  const int64_t seen = std::clamp<int64_t>(last + 1, 0, n);
  const float most = seen == 0 ? 0.0f : *std::max_element(s, s + seen);
  double sum = 0;
  for (int64_t t = 0; t < seen; ++t) sum += std::exp(double(s[t] - most));
  for (int64_t t = 0; t < n; ++t) s[t] = t < seen ? static_cast<float>(std::exp(double(s[t] - most)) / sum) : 0.0f;
}

struct Attention {
  std::vector<float> weight, spread;  // [m, n]: of the coded rows; || c_t - y_w ||^2
};

/// Exact weights of the queries over all rows they see, and how far each coded row is from what they read.
Result<Attention> attention_of(const LatentTokens& v, int64_t n, const std::vector<float>& contents,
                               const std::vector<float>& with_gram, const std::vector<float>& outlier, Stream& stream) {
  const int64_t m = v.queries.dim(0), n_all = v.rows.dim(0), d = v.d_content;
  VESTIGE_ASSIGN(std::vector<float> weight, scores(v, v.rows, stream));
  std::vector<float> y(static_cast<size_t>(m * d)), cross(static_cast<size_t>(m * n));
  for (int64_t w = 0; w < m; ++w) {
    softmax_up_to(weight.data() + w * n_all, n_all, v.q_positions[static_cast<size_t>(w)]);
    for (int64_t t = 0; t < n_all; ++t) {
      const float a = weight[static_cast<size_t>(w * n_all + t)];
      for (int64_t j = 0; j < d && a > 0; ++j)
        y[static_cast<size_t>(w * d + j)] += a * contents[static_cast<size_t>(t * d + j)];
    }
  }
  const ConstTensorView outputs(y.data(), DType::kF32, {m, d});
  VESTIGE_TRY(ops::matmul(
      {.x = outputs, .w = {with_gram.data(), DType::kF32, {n, d}}, .out = {cross.data(), DType::kF32, {m, n}}},
      stream));
  VESTIGE_TRY(stream.synchronize());
  VESTIGE_ASSIGN(const std::vector<float> y_gram, times_gram(outputs, v.value_gram, stream));
  const std::vector<float> y_square = squares(outputs, y_gram);
  Attention out;
  for (int64_t w = 0; w < m; ++w) {
    for (int64_t t = 0; t < n; ++t) {
      const float square = outlier[static_cast<size_t>(t)] + y_square[static_cast<size_t>(w)];
      out.weight.push_back(weight[static_cast<size_t>(w * n_all + t)]);
      out.spread.push_back(std::max(0.0f, square - 2 * cross[static_cast<size_t>(w * n + t)]));
    }
  }
  return out;
}

}  // namespace

Result<std::vector<float>> latent_utility(const std::string& rule, const LatentTokens& v, Stream& stream) {
  VESTIGE_ASSIGN(const UtilityRule* found, find_utility(rule));
  const int64_t n = v.left.dim(0), d = v.d_content;
  const auto size = static_cast<size_t>(n);
  const bool blind = v.queries.empty() || v.queries.dim(0) == 0;
  if (blind && found->measures) {
    std::vector<float> out(size);
    for (int64_t t = 0; t < n; ++t) {
      const float* r = v.left.as<float>() + t * v.left.dim(1);
      out[static_cast<size_t>(t)] = static_cast<float>(dot(r, r, v.left.dim(1)));
    }
    return out;
  }
  HeadView head;
  head.n = n;
  head.seed = v.seed;
  std::vector<float> value_error, key_error(size), outlier, error;
  Attention seen;
  if (found->measures) {
    head.m = v.queries.dim(0);
    const ConstTensorView left = content_of(v.left, d);
    VESTIGE_ASSIGN(const std::vector<float> left_gram, times_gram(left, v.value_gram, stream));
    value_error = squares(left, left_gram);
    const std::vector<float> contents = centred_contents(v, n);
    const ConstTensorView coded(contents.data(), DType::kF32, {n, d});
    VESTIGE_ASSIGN(const std::vector<float> with_gram, times_gram(coded, v.value_gram, stream));
    outlier = squares(coded, with_gram);
    VESTIGE_ASSIGN(error, scores(v, v.left, stream));
    for (int64_t w = 0; w < head.m; ++w) {
      for (size_t t = 0; t < size; ++t) {
        float& e = error[static_cast<size_t>(w) * size + t];
        key_error[t] += e * e / static_cast<float>(head.m);
        e = -e;  // coded less exact
      }
    }
    if (found->weighs) {
      VESTIGE_ASSIGN(seen, attention_of(v, n, contents, with_gram, outlier, stream));
    }
  }
  head.weight = seen.weight;
  head.logit_error = error;
  head.value_spread = seen.spread;
  head.value_error = value_error;
  head.key_error = key_error;
  head.value_outlier = outlier;
  std::vector<float> key(size), value(size);
  found->score(head, key, value);
  for (size_t t = 0; t < size; ++t) key[t] += value[t];
  return key;
}

}  // namespace vestige::anchor
