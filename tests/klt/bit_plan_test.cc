// Bits by price against hand-worked cases and a plain search.

#include "cache/policies/klt/bit_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace vestige::klt {
namespace {

/// Variances 4^-j times `scale` in class 0, ten times that in class 3; no rows in the others.
ClassVariance falling(int64_t d, int64_t n0, int64_t n3, double scale = 1) {
  ClassVariance v;
  v.d = d;
  v.n_rows = {n0, 0, 0, n3};
  for (size_t s = 0; s < 2; ++s) {
    for (size_t c = 0; c < kClasses; ++c) {
      for (int64_t j = 0; j < d; ++j) {
        v.of_side[s][c].push_back((c == 3 ? 10 : 1) * scale * std::pow(4.0, -double(j)) / (s == 1 ? 4 : 1));
      }
    }
  }
  return v;
}

TEST(BitPlan, StretchesThatRiseGetTheirMean) {
  std::vector<double> x = {5, 1, 3, 2, 7, 0.5};
  make_falling(&x);
  EXPECT_EQ(x, (std::vector<double>{5, 3.25, 3.25, 3.25, 3.25, 0.5}));
}

TEST(BitPlan, BuysEveryBitThatPays) {
  const ClassVariance v = falling(8, 1000, 100);
  const double price = 0.02 * 8;  // a bit must take 0.02 away
  const BitPlan plan = plan_bits(v, price);
  // Class 0, key: variances 1, 1/4, 1/16, 1/64. First bit takes 0.6366 v, second 0.2459 v, third 0.08296 v, fourth
  // 0.02504 v, fifth 0.007 v: 4, 2 (0.061; 0.0207 for a third: 3 bits), 1 (0.0398; 0.0154), 0 (0.0099).
  EXPECT_EQ(plan.of_side[0][0][0], 4);
  EXPECT_EQ(plan.of_side[0][0][1], 3);
  EXPECT_GE(plan.of_side[0][0][2], 1);
  EXPECT_GE(plan.rank[0], 3);
  for (size_t s = 0; s < 2; ++s) {
    for (size_t c = 0; c < kClasses; ++c) {
      ASSERT_EQ(static_cast<int64_t>(plan.of_side[s][c].size()), plan.rank[s]);
      for (size_t j = 1; j < plan.of_side[s][c].size(); ++j) {
        EXPECT_LE(plan.of_side[s][c][j], plan.of_side[s][c][j - 1]);
      }
    }
  }
  for (int32_t c = 0; c < kClasses; ++c) {  // no bit of a byte is left over
    int64_t bits = 0;
    for (const auto& side : plan.of_side) {
      for (const uint8_t b : side[static_cast<size_t>(c)]) bits += b;
    }
    EXPECT_EQ(bits, 8 * plan.row_bytes(c)) << c;
  }
  EXPECT_EQ(plan.code_bytes(), 1000 * plan.row_bytes(0) + 100 * plan.row_bytes(3));
  // Two sides of 4 d + 128, coefficients of d + 4 + 4, five floats; two bits a row; two runs of four counts.
  EXPECT_EQ(plan.n_bytes(), 2 * (32 + 128) + (plan.rank[0] + plan.rank[1]) * 16 + 20 + 275 + 32 + plan.code_bytes());
}

TEST(BitPlan, NothingPaysAtAHighPrice) {
  const BitPlan plan = plan_bits(falling(8, 1000, 100), 1e9);
  EXPECT_EQ(plan.rank[0] + plan.rank[1], 0);
  EXPECT_EQ(plan.code_bytes(), 0);
}

// A document of one row, over and over, and a budget that its tables alone exceed.
TEST(BitPlan, NothingIsBoughtWhereNothingVaries) {
  for (const double scale : {0.0, 1e-200, 1e-300}) {
    const ClassVariance v = falling(8, 60, 4, scale);
    for (const double budget : {0.0, 100.0, 1e9}) {
      const double price = find_price({&v}, budget);
      EXPECT_GT(price, 0);
      if (scale == 0 || budget < 1000) {
        EXPECT_EQ(plan_bits(v, price).code_bytes(), 0) << scale << " " << budget;
      }
    }
  }
}

TEST(BitPlan, OnePriceSpendsTheBudgetOfAllHeads) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 20; ++trial) {
    const ClassVariance a = falling(16, 800 + 10 * trial, 90, std::exp2(trial % 7)), b = falling(16, 500, 700);
    const double budget = 4000 + double(random() % 40000);
    const double price = find_price({&a, &b}, budget);
    const auto bytes_at = [&](double p) { return double(plan_bits(a, p).n_bytes() + plan_bits(b, p).n_bytes()); };
    EXPECT_LE(bytes_at(price), budget);
    // A little cheaper and it would not fit, unless all there is was bought.
    if (plan_bits(b, price).code_bytes() < 1200 * 16) {
      EXPECT_GT(bytes_at(price * (1 - 1e-5)), budget) << trial;
    }
    // The head with more to lose has more bytes a row.
    if (trial % 7 > 3) {
      EXPECT_GE(plan_bits(a, price).row_bytes(0), plan_bits(b, price).row_bytes(0));
    }
  }
}

}  // namespace
}  // namespace vestige::klt
