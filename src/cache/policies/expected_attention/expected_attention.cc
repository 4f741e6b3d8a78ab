// The rows that a Gaussian of the document's last queries would attend. Source: Expected Attention, arXiv:2510.00636.

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/load_number.h"
#include "cache/policies/observed_policy.h"

namespace vestige {

namespace {

/// Without rotation the closed form needs no average over future positions: with mu and Sigma of a head's queries,
///   E[exp(scale q . k)] = exp(scale mu . k + scale^2 / 2 k^T Sigma k)
/// A row's score is log(mean over heads of its share of that expectation, times the norm of its value).
class GaussianScorer final : public PromptScorer {
 public:
  explicit GaussianScorer(int32_t h_q) : h_q_(h_q) {}

  /// Copies: one pass over all queries at the end makes the result independent of how they came.
  Status add(const ConstTensorView& queries, int64_t, const RowPages&, float scale, Stream& stream) override {
    VESTIGE_TRY(stream.synchronize());
    const float* q = queries.as<float>();
    queries_.insert(queries_.end(), q, q + queries.n_elements());
    scale_ = scale;
    return {};
  }

  Status finish(const RowPages& closed, const TensorView& score, Stream& stream) override {
    const int64_t n = closed.n_rows, d = closed.layout.d_row();
    const int64_t n_queries = static_cast<int64_t>(queries_.size()) / (h_q_ * d);
    std::vector<float> mean(static_cast<size_t>(h_q_ * n)), variance(mean.size());
    VESTIGE_TRY(ops::score_moments({.q = ConstTensorView(queries_.data(), DType::kF32, {n_queries, h_q_, d}),
                                    .rows = closed,
                                    .mean = TensorView(mean.data(), DType::kF32, {h_q_, n}),
                                    .variance = TensorView(variance.data(), DType::kF32, {h_q_, n}),
                                    .scale = scale_},
                                   stream));
    VESTIGE_TRY(stream.synchronize());
    std::vector<double> share(static_cast<size_t>(n), 0.0), log_weight(static_cast<size_t>(n));
    for (int64_t head = 0; head < h_q_; ++head) {
      double most = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t u = 0; u < n; ++u) {
        const auto at = static_cast<size_t>(head * n + u);
        log_weight[static_cast<size_t>(u)] = static_cast<double>(mean[at]) + static_cast<double>(variance[at]) / 2;
        most = std::max(most, log_weight[static_cast<size_t>(u)]);
      }
      for (double x : log_weight) sum += std::exp(x - most);
      for (size_t u = 0; u < share.size(); ++u) share[u] += std::exp(log_weight[u] - most) / sum;
    }
    for (int64_t u = 0; u < n; ++u) {
      const double weight = share[static_cast<size_t>(u)] / h_q_ * value_norm(closed, u);
      // Log domain; a row of no weight at all still ranks above those that nobody observed.
      score.as<float>()[u] = weight > 0 ? static_cast<float>(std::log(weight)) : -1e4f;
    }
    queries_.clear();
    return {};
  }

 private:
  /// The cache knows no W_UV: the content's norm stands for the value's.
  static double value_norm(const RowPages& rows, int64_t u) {
    const void* page = rows.content[u / rows.page_rows];
    double square = 0;
    for (int32_t k = 0; k < rows.layout.d_content; ++k) {
      const auto x =
          static_cast<double>(load_number(page, rows.layout.dtype, u % rows.page_rows * rows.content_stride + k));
      square += x * x;
    }
    return std::sqrt(square);
  }

  int32_t h_q_;
  float scale_ = 1.0f;
  std::vector<float> queries_;  // [n, h_q, d_row]
};

class ExpectedAttentionPolicy final : public ObservedPolicy {
 public:
  ExpectedAttentionPolicy(PolicyConfig config, int32_t n_queries)
      : ObservedPolicy(std::move(config), ObservedQueries::kPrompt, n_queries) {}
  std::unique_ptr<PromptScorer> create_scorer(const RowLayout&, int32_t h_q) const override {
    return std::make_unique<GaussianScorer>(h_q);
  }
};

}  // namespace

PolicyInfo expected_attention_info() {
  return {"expected_attention",
          "keeps the rows that a Gaussian of the document's last queries is expected to attend, times their norm",
          "Expected Attention, arXiv:2510.00636, closed form under NoPE",
          {{"n_queries", 1024, 1, 1024, "last tokens whose queries the Gaussian is fitted to"}}};
}

Result<std::shared_ptr<const CachePolicy>> create_expected_attention(const PolicyConfig& config, const RowLayout&) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, expected_attention_info()));
  VESTIGE_ASSIGN(const int32_t n_queries, whole_setting(complete, "n_queries"));
  return std::shared_ptr<const CachePolicy>(std::make_shared<ExpectedAttentionPolicy>(std::move(complete), n_queries));
}

}  // namespace vestige
