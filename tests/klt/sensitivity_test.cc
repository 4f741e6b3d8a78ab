// What errors cost, against float64 attention in which one row was moved.

#include "cache/policies/klt/sensitivity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/cache/cache_fixture.h"

namespace vestige::klt {
namespace {

constexpr int64_t kD = 8, kH = 2, kRows = 40, kTokens = 12;

struct Scene {
  HeadRows rows;
  std::vector<float> queries, gram;
  RecallFit fit;
  std::unique_ptr<Stream> stream = testing::make_stream();

  Scene() {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    rows.n = kRows;
    rows.d = kD;
    for (int64_t i = 0; i < kRows * kD; ++i) {
      rows.key.push_back(normal(random));
      rows.value.push_back(normal(random));
    }
    for (int64_t i = 0; i < kTokens * kH; ++i) {
      for (int64_t j = 0; j < 2 * kD; ++j) queries.push_back(j < kD ? 0.0f : normal(random));
    }
    std::vector<float> w;
    for (int64_t i = 0; i < kD * kD; ++i) w.push_back(normal(random));
    gram.resize(kD * kD);
    for (int64_t i = 0; i < kD; ++i) {
      for (int64_t j = 0; j < kD; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < kD; ++k) sum += double(w[size_t(k * kD + i)]) * double(w[size_t(k * kD + j)]);
        gram[size_t(i * kD + j)] = static_cast<float>(sum);
      }
    }
    fit.queries = {queries.data(), DType::kF32, {kTokens, kH, 2 * kD}};
    fit.first_position = kRows - kTokens;
    fit.rows.n_rows = kRows;
    fit.scale = 0.4f;
    fit.value_gram = {gram.data(), DType::kF32, {kD, kD}};
  }

  /// Outputs of all queries, [tokens, h, d], with `move` added to one number of row `row`.
  std::vector<double> outputs(int64_t row, bool key, int64_t coordinate, double move) const {
    std::vector<double> out;
    for (int64_t i = 0; i < kTokens * kH; ++i) {
      const int64_t n_seen = fit.first_position + i / kH + 1;
      std::vector<double> s(static_cast<size_t>(n_seen)), y(kD, 0.0);
      double sum = 0;
      for (int64_t t = 0; t < n_seen; ++t) {
        double dot = 0;
        for (int64_t j = 0; j < kD; ++j) {
          const double moved = key && t == row && j == coordinate ? move : 0.0;
          dot += double(queries[size_t(i * 2 * kD + kD + j)]) * (double(rows.key[size_t(t * kD + j)]) + moved);
        }
        sum += s[size_t(t)] = std::exp(double(fit.scale) * dot);
      }
      for (int64_t t = 0; t < n_seen; ++t) {
        for (int64_t j = 0; j < kD; ++j) {
          const double moved = !key && t == row && j == coordinate ? move : 0.0;
          y[size_t(j)] += s[size_t(t)] / sum * (double(rows.value[size_t(t * kD + j)]) + moved);
        }
      }
      out.insert(out.end(), y.begin(), y.end());
    }
    return out;
  }

  /// Sum over rows, heads of the squared change of the output under gram / h, mean over tokens, for a unit move. Rows
  /// next to a query, here a quarter of the document, do not count.
  double cost(bool key, int64_t coordinate) const {
    constexpr double kStep = 1e-5;
    const auto base = outputs(-1, key, 0, 0);
    double total = 0;
    for (int64_t row = 0; row < kRows; ++row) {
      const auto moved = outputs(row, key, coordinate, kStep);
      for (size_t q = 0; q < base.size(); q += kD) {
        if (row >= fit.first_position + int64_t(q) / (kD * kH) + 1 - kRows / 4) continue;
        for (size_t i = 0; i < kD; ++i) {
          for (size_t j = 0; j < kD; ++j) {
            total +=
                (moved[q + i] - base[q + i]) * (moved[q + j] - base[q + j]) * double(gram[i * kD + j]) / double(kH);
          }
        }
      }
    }
    return total / (kStep * kStep) / double(kTokens);
  }
};

// An error of one row's key moves the output by a (v - y) to first order; the form is the sum over rows.
TEST(Sensitivity, EqualsWhatMovedRowsCost) {
  const Scene scene;
  const auto found = measure_sensitivity(scene.fit, scene.rows, {}, {1.0}, *scene.stream);
  ASSERT_TRUE(found.ok()) << found.status().message();
  for (int64_t j = 0; j < kD; ++j) {
    const double key = scene.cost(true, j), value = scene.cost(false, j);
    EXPECT_NEAR(found->key[size_t(j * (kD + 1))], key, 2e-3 * key) << j;
    EXPECT_NEAR(found->value[size_t(j * (kD + 1))], value, 2e-3 * value) << j;
  }
}

TEST(Sensitivity, KeysWeighMore) {
  const Scene scene;
  const auto one = measure_sensitivity(scene.fit, scene.rows, {}, {1.0}, *scene.stream);
  const auto three = measure_sensitivity(scene.fit, scene.rows, {}, {3.0}, *scene.stream);
  for (size_t i = 0; i < one->key.size(); ++i) EXPECT_DOUBLE_EQ(three->key[i], 3 * one->key[i]);
  EXPECT_EQ(three->value, one->value);
}

// Turned pairs: both coordinates alike, no products; the energy of a pair does not depend on the turn.
TEST(Sensitivity, TurnedPairsAreRound) {
  Scene scene;
  const KeyRotation rotation = {{0.7f, 0.1f, 0.01f}, true};
  const auto plain = measure_sensitivity(scene.fit, scene.rows, {}, {1.0}, *scene.stream);
  const auto turned = measure_sensitivity(scene.fit, scene.rows, rotation, {1.0}, *scene.stream);
  for (size_t i = 0; i < kD; ++i) {
    for (size_t j = 0; j < kD; ++j) {
      const double got = turned->key[i * kD + j];
      if (i >= 6 && j >= 6) {
        EXPECT_NEAR(got, plain->key[i * kD + j], 1e-6 * std::abs(got));
      } else if (i == j) {
        const size_t a = i / 2 * 2;
        EXPECT_NEAR(got, (plain->key[a * kD + a] + plain->key[(a + 1) * (kD + 1)]) / 2, 1e-5 * got);
      } else {
        EXPECT_EQ(got, 0.0);
      }
    }
  }
}

}  // namespace
}  // namespace vestige::klt
