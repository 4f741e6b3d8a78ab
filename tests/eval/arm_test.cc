#include "eval/arm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vestige::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names(std::string_view list, std::vector<double> ratios = {32}) {
  const auto arms = parse_arms(list, ratios, 4096);
  EXPECT_TRUE(arms.ok()) << arms.status().message();
  std::vector<std::string> out;
  if (arms.ok()) {
    for (const Arm& arm : *arms) out.push_back(arm.name);
  }
  return out;
}

std::string error_of(std::string_view list) {
  const std::vector<double> ratios = {32};
  const auto arms = parse_arms(list, ratios, 4096);
  return arms.ok() ? "" : arms.status().message();
}

TEST(Arm, CommasBelongToSettingsBeforeAnAt) {
  const auto specs = split_specs("full,vestige:8@tau=0.95,z_max=4,random,streaming:4");
  ASSERT_TRUE(specs.ok());
  EXPECT_THAT(*specs, ElementsAre("full", "vestige:8@tau=0.95,z_max=4", "random", "streaming:4"));
  const auto two = split_specs("vestige@tau=0.8,vestige@tau=0.9,z_max=2");
  ASSERT_TRUE(two.ok());
  EXPECT_THAT(*two, ElementsAre("vestige@tau=0.8", "vestige@tau=0.9,z_max=2"));
}

TEST(Arm, FullIsFirstAndEachArmOnce) {
  EXPECT_THAT(names("random,full,random:32", {8, 32}), ElementsAre("full", "random:8", "random:32"));
}

// Their bytes follow from their settings.
TEST(Arm, SomePoliciesTakeNoRatio) {
  EXPECT_THAT(names("kivi,kivi@bits=2,random", {8, 32}),
              ElementsAre("full", "kivi", "kivi@bits=2", "random:8", "random:32"));
  EXPECT_THAT(error_of("turboquant:8@bits=3"), HasSubstr("takes no ratio"));
}

TEST(Arm, NamesAreCanonical) {
  EXPECT_THAT(names("vestige:8x@z_max=4.0,tau=0.950"), ElementsAre("full", "vestige:8@tau=0.95,z_max=4"));
  EXPECT_EQ(arm_family("vestige:8@tau=0.95"), "vestige@tau=0.95");
  EXPECT_EQ(arm_family("random:32"), "random");
  EXPECT_EQ(arm_family("full"), "full");
}

TEST(Arm, SettingsReachThePolicy) {
  const std::vector<double> ratios = {32};
  const auto arms = parse_arms("vestige:16@tau=0.8,sinks=7,random@seed=5", ratios, 512);
  ASSERT_TRUE(arms.ok()) << arms.status().message();
  const auto random = parse_arms("random@seed=5", ratios, 512);
  ASSERT_TRUE(random.ok());
  const PolicyConfig& policy = (*arms)[1].policy;
  EXPECT_EQ(policy.name, "vestige");
  EXPECT_EQ(policy.ratio, 16);
  EXPECT_EQ(policy.n_sinks, 7);
  EXPECT_EQ(policy.block_rows, 512);
  EXPECT_EQ(policy.settings.at("tau"), 0.8);
  EXPECT_EQ((*random)[1].policy.seed, 5u);
}

TEST(Arm, ErrorsNameTheSpec) {
  EXPECT_THAT(error_of("quest9"), HasSubstr("no policy \"quest9\""));
  EXPECT_THAT(error_of("random,,full"), HasSubstr("empty name"));
  EXPECT_THAT(error_of("vestige:0.5"), HasSubstr("at least 1"));
  EXPECT_THAT(error_of("vestige:"), HasSubstr("ratio"));
  EXPECT_THAT(error_of("full:8"), HasSubstr("no ratio"));
  EXPECT_THAT(error_of("vestige@speed=3"), HasSubstr("no setting \"speed\""));
  EXPECT_THAT(error_of("vestige@tau"), HasSubstr("name=value"));
  EXPECT_THAT(error_of("vestige@tau=high"), HasSubstr("tau = \"high\""));
  EXPECT_THAT(error_of("vestige@tau=7"), HasSubstr("vestige.tau = 7"));
  EXPECT_THAT(error_of("random@sinks=1.5"), HasSubstr("sinks"));
}

}  // namespace
}  // namespace vestige::eval
