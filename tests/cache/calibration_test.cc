#include "cache/policies/vestige/calibration.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace vestige {
namespace {

TEST(CalibrationTest, RankForTau090) {
  const std::pair<int64_t, int64_t> cases[] = {{17, 18}, {18, 18}, {19, 19},  {37, 36},
                                               {38, 37}, {57, 55}, {100, 96}, {1000, 949}};
  for (const auto& [n, k] : cases) EXPECT_EQ(calibration_rank(n, 0.90), k) << n;
  for (int64_t n = 0; n < 5000; ++n) EXPECT_EQ(calibration_rank(n, 0.90), (18 * (n + 1) + 18) / 19) << n;
}

TEST(CalibrationTest, TooFewSamplesGiveTheLargestZ) {
  std::vector<float> samples(17, 0.5f);
  EXPECT_EQ(calibrated_z(samples, 0.90, 8.0f), 8.0f);
  samples.push_back(0.5f);
  EXPECT_EQ(calibrated_z(samples, 0.90, 8.0f), 0.5f);
  std::vector<float> none;
  EXPECT_EQ(calibrated_z(none, 0.90, 8.0f), 8.0f);
}

TEST(CalibrationTest, TakesTheOrderStatistic) {
  std::vector<float> samples;
  for (int i = 99; i >= 0; --i) samples.push_back(0.01f * static_cast<float>(i));
  EXPECT_FLOAT_EQ(calibrated_z(samples, 0.90, 8.0f), 0.95f);  // the 96th of 100
}

TEST(CalibrationTest, StaysBetweenZeroAndTheLargestZ) {
  std::vector<float> low(100, -1.0f), high(100, 20.0f);
  EXPECT_EQ(calibrated_z(low, 0.90, 8.0f), 0.0f);
  EXPECT_EQ(calibrated_z(high, 0.90, 8.0f), 8.0f);
  std::vector<float> infinite(100, std::numeric_limits<float>::infinity());
  EXPECT_EQ(calibrated_z(infinite, 0.90, 8.0f), 8.0f);
}

}  // namespace
}  // namespace vestige
