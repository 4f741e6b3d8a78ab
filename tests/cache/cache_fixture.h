#pragma once

// Synthetic rows, queries and caches, and attention in float64 to compare with.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/half.h"
#include "tests/cache/memory_store.h"
#include "vestige/cache.h"

namespace vestige::testing {

#define VESTIGE_ASSERT_OK(expr)                     \
  do {                                              \
    const ::vestige::Status status_ = (expr);       \
    ASSERT_TRUE(status_.ok()) << status_.message(); \
  } while (0)

struct Shape {
  RowLayout layout;
  int32_t block_rows = 64;
  int32_t h_q = 3;
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(layout.d_scored())); }
};

inline std::unique_ptr<Stream> make_stream(int32_t n_threads = 2, const std::string& backend = "cpu") {
  auto stream = Stream::create({.backend = backend, .n_threads = n_threads, .pin_threads = false});
  EXPECT_TRUE(stream.ok());
  return std::move(stream).value();
}

/// [n, d_row] f32, representable in the row dtype: unit content, a slow branch with noise and rare spikes.
inline std::vector<float> make_rows(int64_t n, const RowLayout& layout, uint64_t seed = 1) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> rows;
  for (int64_t u = 0; u < n; ++u) {
    const float spike = rng() % 16 == 0 ? 3.0f : 0.3f;
    for (int32_t k = 0; k < layout.d_row(); ++k) {
      float x = normal(rng);
      if (k >= layout.d_content) x = std::sin(0.01f * static_cast<float>(u) + static_cast<float>(k)) + spike * x;
      rows.push_back(layout.dtype == DType::kF32 ? x : bf16_to_f32(f32_to_bf16(x)));
    }
  }
  return rows;
}

/// [n, h, d_row] f32; content in a few directions, so that a basis of few rows explains most of it (or zero, where it
/// is not scored).
inline std::vector<float> make_queries(int64_t n, int32_t h, const RowLayout& layout, uint64_t seed = 2) {
  std::mt19937_64 rng(seed), fixed(99);
  std::normal_distribution<float> normal;
  constexpr int kDirections = 8;
  std::vector<float> directions(static_cast<size_t>(kDirections * layout.d_content));
  for (float& x : directions) x = normal(fixed);
  std::vector<float> q;
  for (int64_t i = 0; i < n * h; ++i) {
    float weight[kDirections];
    for (float& w : weight) w = normal(rng) / std::sqrt(static_cast<float>(kDirections));
    for (int32_t k = 0; k < layout.d_row(); ++k) {
      float x = k < layout.d_content ? 0.1f * normal(rng) : normal(rng);
      for (int j = 0; k < layout.d_content && j < kDirections; ++j) {
        x += weight[j] * directions[static_cast<size_t>(j * layout.d_content + k)];
      }
      q.push_back(k < layout.scored_begin() ? 0.0f : x);
    }
  }
  return q;
}

inline ConstTensorView view_rows(const std::vector<float>& rows, const RowLayout& layout, int64_t begin, int64_t n) {
  const auto total = static_cast<int64_t>(rows.size()) / layout.d_row();
  return ConstTensorView(rows.data(), DType::kF32, {total, layout.d_row()}).slice(begin, n);
}

inline std::unique_ptr<LayerCache> make_cache(const Shape& shape, const std::string& policy, double ratio = 8,
                                              std::map<std::string, double> settings = {}) {
  PolicyConfig config;
  config.name = policy;
  config.block_rows = shape.block_rows;
  config.ratio = ratio;
  config.seed = 7;
  config.settings = std::move(settings);
  auto made = create_policy(config, shape.layout);
  EXPECT_TRUE(made.ok()) << made.status().message();
  if (!made.ok()) return nullptr;
  auto cache = LayerCache::create(shape.layout, shape.h_q, shape.scale(), made.value());
  EXPECT_TRUE(cache.ok()) << cache.status().message();
  return cache.ok() ? std::move(cache).value() : nullptr;
}

/// The paper's recall (Eq. 4, order statistic, no refit) with other settings on top.
inline std::map<std::string, double> paper_settings(std::map<std::string, double> more = {}) {
  more.insert({{"codec", 1}, {"rule", 1}, {"margin", 0}, {"quantile", 1}, {"n_refit", 0}});
  return more;
}

struct Attended {
  std::vector<float> out, lse;
  StepRecord record;
};

/// One step with h_q queries at `q`.
inline Attended attend(LayerCache& cache, const float* q, Stream& stream) {
  const RowLayout& layout = cache.layout();
  Attended a;
  a.out.resize(static_cast<size_t>(cache.h_q() * layout.d_content));
  a.lse.resize(static_cast<size_t>(cache.h_q()));
  const Status status = cache.attend(ConstTensorView(q, DType::kF32, {1, cache.h_q(), layout.d_row()}),
                                     TensorView(a.out.data(), DType::kF32, {1, cache.h_q(), layout.d_content}),
                                     TensorView(a.lse.data(), DType::kF32, {1, cache.h_q()}), &a.record, stream);
  EXPECT_TRUE(status.ok()) << status.message();
  return a;
}

inline Status fit(LayerCache& cache, const std::vector<float>& queries, Stream& stream) {
  const int64_t n = static_cast<int64_t>(queries.size()) / (cache.h_q() * cache.layout().d_row());
  return cache.fit_recall(ConstTensorView(queries.data(), DType::kF32, {n, cache.h_q(), cache.layout().d_row()}),
                          stream);
}

/// Hands the queries that its policy wants to the cache, `chunk` tokens a call, and lets it choose anew. The last of
/// `queries` is that of the last row; policies that want a second pass' or others' queries get all of them, past the
/// end.
inline Status observe(LayerCache& cache, const std::vector<float>& queries, Stream& stream, int64_t chunk = 1 << 20) {
  const int64_t h = cache.h_q(), d = cache.layout().d_row();
  const int64_t n = std::min(static_cast<int64_t>(queries.size()) / (h * d), cache.n_rows());
  const ObservedQueries kind = cache.policy().observes();
  const int64_t first = kind == ObservedQueries::kPrompt ? std::max<int64_t>(0, n - cache.policy().n_observed()) : 0;
  const int64_t at = kind == ObservedQueries::kPrompt ? cache.n_rows() - n : cache.n_rows();
  for (int64_t i = first; i < n; i += chunk) {
    const int64_t count = std::min(chunk, n - i);
    VESTIGE_TRY(cache.observe(ConstTensorView(queries.data() + i * h * d, DType::kF32, {count, h, d}), at + i, stream));
  }
  return cache.rescore(stream);
}

/// Everything a cache holds, by name.
inline MemoryStore saved(const LayerCache& cache) {
  MemoryStore store;
  const Status status = cache.save("", store);
  EXPECT_TRUE(status.ok()) << status.message();
  return store;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// scale * q . row in float64.
inline double true_score(const float* q, const float* row, int64_t d, double scale) {
  double s = 0;
  for (int64_t k = 0; k < d; ++k) s += static_cast<double>(q[k]) * row[k];
  return s * scale;
}

/// Attention of one head over the rows of `ids`.
inline std::vector<double> attend_f64(const float* q, const std::vector<float>& rows, const std::vector<int64_t>& ids,
                                      const Shape& shape, double* lse) {
  const int64_t d = shape.layout.d_row();
  std::vector<double> score, out(static_cast<size_t>(shape.layout.d_content));
  double max = -INFINITY, sum = 0;
  for (int64_t u : ids) {
    score.push_back(true_score(q, rows.data() + u * d, d, static_cast<double>(shape.scale())));
    max = std::max(max, score.back());
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const double w = std::exp(score[i] - max);
    sum += w;
    for (size_t k = 0; k < out.size(); ++k)
      out[k] += w * static_cast<double>(rows[static_cast<size_t>(ids[i] * d) + k]);
  }
  for (double& x : out) x /= sum;
  *lse = max + std::log(sum);
  return out;
}

/// Checks a step's outputs against float64 attention over `ids`.
inline void expect_attends(const Attended& a, const float* q, const std::vector<float>& rows,
                           const std::vector<int64_t>& ids, const Shape& shape) {
  for (int32_t head = 0; head < shape.h_q; ++head) {
    double lse = 0;
    const std::vector<double> want = attend_f64(q + head * shape.layout.d_row(), rows, ids, shape, &lse);
    EXPECT_NEAR(a.lse[static_cast<size_t>(head)], lse, 2e-5) << "head " << head;
    for (size_t k = 0; k < want.size(); ++k) {
      ASSERT_NEAR(a.out[static_cast<size_t>(head) * want.size() + k], want[k], 3e-5)
          << "head " << head << " column " << k;
    }
  }
}

inline std::vector<int64_t> all_ids(int64_t n) {
  std::vector<int64_t> ids(static_cast<size_t>(n));
  for (int64_t u = 0; u < n; ++u) ids[static_cast<size_t>(u)] = u;
  return ids;
}

/// Kept and tail rows, the rows attended without recall.
inline std::vector<int64_t> kept_and_tail(const LayerCache& cache) {
  std::vector<int64_t> ids;
  for (int32_t u : cache.kept_ids()) ids.push_back(u);
  for (int64_t u = cache.n_closed(); u < cache.n_rows(); ++u) ids.push_back(u);
  return ids;
}

}  // namespace vestige::testing
