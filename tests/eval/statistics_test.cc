#include "eval/statistics.h"

#include <gtest/gtest.h>

#include <vector>

namespace vestige::eval {
namespace {

// arXiv:2609.03949v1, Table 10, to its two digits.
TEST(Statistics, WilsonAsThePaperPrintsIt) {
  struct Case {
    int64_t n_right, n;
    double low, high;
  };
  for (const Case& c : std::vector<Case>{{21, 24, 0.69, 0.96},
                                         {9, 12, 0.47, 0.91},
                                         {16, 24, 0.47, 0.82},
                                         {11, 12, 0.65, 0.99},
                                         {7, 12, 0.32, 0.81},
                                         {24, 24, 0.86, 1.00},
                                         {12, 12, 0.76, 1.00}}) {
    const Interval i = wilson_95(c.n_right, c.n);
    EXPECT_NEAR(i.low, c.low, 0.0051) << c.n_right << "/" << c.n;
    EXPECT_NEAR(i.high, c.high, 0.0051) << c.n_right << "/" << c.n;
  }
  EXPECT_EQ(wilson_95(0, 0).low, 0);
  EXPECT_EQ(wilson_95(0, 0).high, 1);
  EXPECT_EQ(wilson_95(0, 5).low, 0);
}

TEST(Statistics, MeanByHand) {
  const std::vector<double> values = {1, 2, 3};  // deviation 1, standard error 1 / sqrt(3)
  const Mean m = mean_95(values);
  EXPECT_DOUBLE_EQ(m.value, 2);
  EXPECT_NEAR(m.high - m.value, 1.959964 / 1.7320508, 1e-6);
  EXPECT_NEAR(m.value - m.low, m.high - m.value, 1e-12);
  const Mean one = mean_95(std::vector<double>{4});
  EXPECT_EQ(one.low, 4);
  EXPECT_EQ(one.high, 4);
}

// All 8 disagreements on one side: 2 / 2^8, the p = 0.008 of the paper's authors. 1 of 4: 2 (1 + 4) / 16.
TEST(Statistics, SignTestByHand) {
  EXPECT_NEAR(sign_test(8, 0), 2.0 / 256, 1e-12);
  EXPECT_NEAR(sign_test(0, 8), 2.0 / 256, 1e-12);
  EXPECT_NEAR(sign_test(3, 1), 10.0 / 16, 1e-12);
  EXPECT_EQ(sign_test(2, 2), 1);
  EXPECT_EQ(sign_test(0, 0), 1);
}

}  // namespace
}  // namespace vestige::eval
