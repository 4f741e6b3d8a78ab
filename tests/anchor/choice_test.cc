// Which tokens become anchors, what residuals are worth and which tokens get one: against values worked by hand.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "cache/policies/anchor/choose_anchors.h"
#include "cache/policies/anchor/cover_anchors.h"
#include "cache/policies/anchor/pick_residuals.h"
#include "cache/policies/anchor/utility.h"

namespace vestige::anchor {
namespace {

TEST(PooledScores, ZerosBeyondTheEnds) {
  const std::vector<float> score = {7, 0, 0, 0, 0, 14};
  const std::vector<float> want = {1, 1, 3, 3, 2, 2};
  EXPECT_EQ(pooled_scores(score, 7), want);
  EXPECT_EQ(pooled_scores(score, 1), score);
  EXPECT_TRUE(pooled_scores({}, 7).empty());
}

std::vector<int32_t> chosen(const AnchorChoice& choice, const std::vector<float>& score) {
  auto made = choose_anchors(choice, score);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? *made : std::vector<int32_t>();
}

TEST(ChooseAnchors, BestScoresThenDrawn) {
  const std::vector<float> score = {1, 5, 3, 5, 2, std::nanf(""), 3, 0, 9, 4};
  // floor(0.7 * 5) = 3 by score: 8, then 1 and 3 (5 each).
  const std::vector<int32_t> five = chosen({.n_coded = 10, .n_selected = 5, .seed = 3}, score);
  ASSERT_EQ(five.size(), 5u);
  EXPECT_TRUE(std::is_sorted(five.begin(), five.end()));
  for (int32_t t : {1, 3, 8}) EXPECT_NE(std::find(five.begin(), five.end(), t), five.end()) << t;
  EXPECT_EQ(five, chosen({.n_coded = 10, .n_selected = 5, .seed = 3}, score));
  // Equal scores: the lower position; not a number: last.
  EXPECT_EQ(chosen({.n_coded = 10, .n_selected = 2, .rho = 1}, score), (std::vector<int32_t>{1, 8}));
  EXPECT_EQ(chosen({.n_coded = 10, .n_selected = 9, .rho = 1}, score),
            (std::vector<int32_t>{0, 1, 2, 3, 4, 6, 7, 8, 9}));
  EXPECT_EQ(chosen({.n_coded = 10, .n_selected = 10}, score).size(), 10u);
  EXPECT_TRUE(chosen({.n_coded = 10, .n_selected = 0}, score).empty());
  EXPECT_FALSE(choose_anchors({.n_coded = 10, .n_selected = 11}, score).ok());
  EXPECT_FALSE(choose_anchors({.n_coded = 9, .n_selected = 5}, score).ok());
  EXPECT_FALSE(choose_anchors({.n_coded = 10, .n_selected = 5, .rho = 1.1}, score).ok());
}

// Without replacement, even, and another seed draws others.
TEST(ChooseAnchors, DrawsEvenly) {
  std::vector<int> count(50, 0);
  std::set<std::vector<int32_t>> seen;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const std::vector<int32_t> drawn = chosen({.n_coded = 50, .n_selected = 10, .rho = 0, .seed = seed}, {});
    EXPECT_EQ(std::set<int32_t>(drawn.begin(), drawn.end()).size(), 10u);
    for (int32_t t : drawn) ++count[static_cast<size_t>(t)];
    seen.insert(drawn);
  }
  EXPECT_GT(seen.size(), 1990u);
  for (int n : count) EXPECT_NEAR(n, 400, 5 * std::sqrt(400 * 0.8));
}

struct Plane {
  std::vector<float> key, value;
  CoverRows rows(int64_t n_coded) const {
    const auto n = static_cast<int64_t>(key.size() / 8);
    return {{key.data(), DType::kF32, {n, 8}}, {value.data(), DType::kF32, {n, 8}}, n_coded};
  }
};

/// Rows 8 wide whose first two numbers are at these angles, in degrees, and of any length.
Plane plane(const std::vector<double>& keys, const std::vector<double>& values) {
  Plane p;
  const auto add = [](const std::vector<double>& angles, std::vector<float>* x) {
    for (size_t i = 0; i < angles.size(); ++i) {
      const double at = angles[i] * std::acos(-1) / 180, size = 0.5 + static_cast<double>(i % 3);
      x->insert(x->end(), {float(size * std::cos(at)), float(size * std::sin(at)), 0, 0, 0, 0, 0, 0});
    }
  };
  add(keys, &p.key);
  add(values, &p.value);
  return p;
}

using Positions = std::vector<int32_t>;

// Values all alike. From 0 degrees: 90 is farthest (cos 0), then 50 (cos 0.766 to 90, 0.643 to 0) before 160 (0.940).
TEST(CoverAnchors, FarthestFirstByHand) {
  const Plane p = plane({0, 10, 90, 50, 160, 180}, std::vector<double>(6, 30));
  EXPECT_EQ(farthest_rows(p.rows(6), Positions{0}, 4), (Positions{2, 3, 4, 1}));  // 180 is 0 turned over: last
  EXPECT_EQ(farthest_rows(p.rows(6), Positions{0}, 9), (Positions{2, 3, 4, 1, 5}));
  EXPECT_EQ(farthest_rows(p.rows(6), {}, 2), (Positions{0, 2}));  // all alike at first: the lower position
  // Row 2 is no candidate but may cover.
  EXPECT_EQ(farthest_rows(p.rows(2), Positions{0, 2}, 2), (Positions{1}));
  EXPECT_EQ(farthest_rows(p.rows(6), Positions{0, 2}, 1), (Positions{3}));
}

// Each side has its own nearest anchor. Keys 0, 0, 90, 45; values 0, 80, 0, 45: from row 0 on rows 1 (1 + 0.174) and
// 2 (0 + 1) are farther than row 3 (0.707 twice).
TEST(CoverAnchors, SidesAddUp) {
  const Plane p = plane({0, 0, 90, 45}, {0, 80, 0, 45});
  EXPECT_EQ(farthest_rows(p.rows(4), Positions{0}, 3), (Positions{2, 1, 3}));
}

TEST(CoverAnchors, RowsWithoutDirectionAreCovered) {
  Plane p = plane({0, 40, 80, 10}, {0, 0, 0, 0});
  for (int i = 0; i < 2; ++i) p.key[static_cast<size_t>(8 + i)] = p.value[static_cast<size_t>(8 + i)] = 0;
  p.key[16] = std::nanf("");
  p.value[16] = HUGE_VALF;
  EXPECT_EQ(farthest_rows(p.rows(4), Positions{0}, 3), (Positions{3, 1, 2}));
}

// Clusters around 4.8 (0, 2, 4, 6, 12 degrees) and 94.7 (90, 275 = 95 turned over, 99): farthest rows lie at their
// rims, central rows amid them.
TEST(CoverAnchors, CentralRowsByHand) {
  const std::vector<double> angles = {0, 2, 4, 6, 12, 90, 275, 99};
  const Plane p = plane(angles, angles);
  EXPECT_EQ(farthest_rows(p.rows(8), {}, 2), (Positions{0, 5}));
  EXPECT_EQ(central_rows(p.rows(8), {}, 2), (Positions{2, 6}));
  EXPECT_EQ(central_rows(p.rows(8), Positions{0}, 1), (Positions{6}));  // what is given stays
  EXPECT_EQ(central_rows(p.rows(8), {}, 8).size(), 8u);
  EXPECT_EQ(central_rows(plane({7, 7, 7, 7}, {7, 7, 7, 7}).rows(4), {}, 3).size(), 3u);
}

TEST(CoverAnchors, AfterThoseByScore) {
  const Plane p = plane({0, 10, 90, 50, 160, 180}, std::vector<double>(6, 30));
  const CoverRows rows = p.rows(5);  // row 5 is a window's
  AnchorChoice choice = {.n_coded = 5, .n_selected = 2, .rho = 0.5, .rule = AnchorRule::kFarthest};
  choice.key = rows.key;
  choice.value = rows.value;
  EXPECT_EQ(chosen(choice, {0, 0, 0, 1, 0}), (Positions{2, 3}));
  choice.rule = AnchorRule::kCentral;
  EXPECT_EQ(chosen(choice, {0, 0, 0, 1, 0}).size(), 2u);
  choice.key = rows.key.slice(0, 4);
  EXPECT_FALSE(choose_anchors(choice, std::vector<float>{0, 0, 0, 1, 0}).ok());
}

// Section 3 of the reference: a = 1e-4.
TEST(Utility, ShiftOfOneToken) {
  EXPECT_NEAR(weight_shift(1e-4, 3), 1.905e-3, 5e-7);
  EXPECT_NEAR(weight_shift(1e-4, 6), 3.869e-2, 5e-6);
  EXPECT_NEAR(weight_shift(1e-4, -3), -9.50e-5, 5e-8);
  EXPECT_EQ(weight_shift(0.3, 0), 0);
  EXPECT_NEAR(weight_shift(1e-30, 1000), 1, 1e-12);
  EXPECT_NEAR(weight_shift(0.5, -1000), -1, 1e-12);
  for (const double a : {1e-6, 0.1, 0.5, 0.99}) {
    for (const double e : {-4.0, -0.2, 1e-3, 0.7, 5.0}) {
      const double moved = a * std::exp(e) / (1 + a * (std::exp(e) - 1));
      EXPECT_NEAR(weight_shift(a, e), (moved - a) / (1 - a), 1e-12) << a << " " << e;
    }
  }
}

struct Scores {
  std::vector<float> key, value;
};

Scores scores_of(const char* name, const HeadView& head) {
  const auto rule = find_utility(name);
  EXPECT_TRUE(rule.ok()) << rule.status().message();
  Scores s = {std::vector<float>(static_cast<size_t>(head.n)), std::vector<float>(static_cast<size_t>(head.n))};
  (*rule)->score(head, s.key, s.value);
  return s;
}

// Two queries, three tokens; the second query does not see the last one.
TEST(Utility, Rules) {
  const std::vector<float> weight = {1e-4f, 0.5f, 0.25f, 1e-4f, 0.1f, 0}, error = {3, 2, -1, 3, 1, 9},
                           spread = {1, 2, 4, 1, 3, 5}, value_error = {1, 2, 3}, key_error = {2, 3, 4},
                           outlier = {5, 6, 7};
  const HeadView head = {2, 3, weight, error, spread, value_error, key_error, outlier, 8};
  Scores s = scores_of("first_order", head);
  EXPECT_NEAR(s.key[0], 9e-8f, 1e-13f);
  EXPECT_NEAR(s.key[1], (0.25 * 4 * 2 + 0.01 * 1 * 3) / 2, 1e-6);
  EXPECT_NEAR(s.key[2], 0.0625 * 1 * 4 / 2, 1e-6);
  EXPECT_NEAR(s.value[1], (0.25 + 0.01) / 2 * 2, 1e-6);
  EXPECT_NEAR(s.value[2], 0.0625 / 2 * 3, 1e-6);
  s = scores_of("one_token", head);
  EXPECT_NEAR(s.key[0], 1.905e-3 * 1.905e-3, 2e-9);
  EXPECT_NEAR(s.value[1], (0.25 + 0.01) / 2 * 2, 1e-6);
  s = scores_of("query_free", head);
  EXPECT_EQ(s.key, (std::vector<float>{10, 18, 28}));
  EXPECT_EQ(s.value, value_error);
  s = scores_of("random", head);
  EXPECT_NE(s.key, s.value);
  EXPECT_EQ(s.key, scores_of("random", head).key);
  for (float u : s.key) EXPECT_TRUE(u >= 0 && u < 1);
  EXPECT_EQ(utility_rules().size(), 4u);
  EXPECT_FALSE(find_utility("best").ok());
  EXPECT_NE(find_utility("best").status().message().find("one_token"), std::string::npos);
}

TEST(PickResiduals, BestOfAllHeads) {
  const std::vector<float> a = {1, 5, 2, 5}, b = {5, std::nanf(""), 9, 2};
  const std::vector<uint8_t> none = {0, 0, 0, 0}, third = {0, 0, 1, 0};
  const std::vector<SideUtility> heads = {{a, none}, {b, third}};  // 9 is an anchor's
  using Masks = std::vector<std::vector<uint64_t>>;
  EXPECT_EQ(pick_residuals(heads, 0), (Masks{{0}, {0}}));
  EXPECT_EQ(pick_residuals(heads, 1), (Masks{{0b0010}, {0}}));  // ties: the lower head, then position
  EXPECT_EQ(pick_residuals(heads, 2), (Masks{{0b1010}, {0}}));
  EXPECT_EQ(pick_residuals(heads, 3), (Masks{{0b1010}, {0b0001}}));
  EXPECT_EQ(pick_residuals(heads, 4), (Masks{{0b1110}, {0b0001}}));
  EXPECT_EQ(pick_residuals(heads, 6), (Masks{{0b1111}, {0b1001}}));
  EXPECT_EQ(pick_residuals(heads, 99), (Masks{{0b1111}, {0b1011}}));
}

TEST(PickResiduals, PooledByGainPerByte) {
  const LayerShape shape = {.n_tokens = 96, .window = 32, .n_anchors = 32, .n_heads = 1, .d = 128};
  auto plan = plan_bytes(shape, lean_layout(32), 2);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  plan->budget_bytes = plan->base_bytes() + 2 * 34 + 35;
  std::vector<float> key(64, 0.0f), value(64, 0.0f);
  const std::vector<uint8_t> none(64, 0);
  key[3] = 34;
  key[9] = 68;
  value[9] = 35;  // the gain a byte of key 3: keys first
  value[1] = 34.9f;
  const ResidualPick pick = pick_pooled(std::vector<SideUtility>{{key, none}}, std::vector<SideUtility>{{value, none}},
                                        *plan, plan->budget_bytes - plan->base_bytes());
  EXPECT_EQ(pick.key[0][0], (1u << 3) | (1u << 9));
  EXPECT_EQ(pick.value[0][0], 1u << 9);
}

// Room for 4 keys and 4 values of 34 and 35 bytes; the keys that anchors miss most have no utility.
TEST(PickResiduals, KeyShareComesFirst) {
  const LayerShape shape = {.n_tokens = 96, .window = 32, .n_anchors = 32, .n_heads = 1, .d = 128};
  const auto plan = plan_bytes(shape, lean_layout(32), 2);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const std::vector<uint8_t> none(8, 0);
  std::vector<uint8_t> anchor = none;
  anchor[0] = 1;
  const std::vector<float> key = {9, 8, 7, 6, 5, 0, 0, 0}, value = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> cosine = {0, 0.9f, 0.9f, 0.9f, 0.9f, 0.5f, 0.2f, 0.1f};
  const std::vector<SideUtility> keys = {{key, anchor, cosine}}, values = {{value, none}};
  const PickRoom room = {.n_key = 4, .n_value = 4, .n_bytes = 4 * 34 + 4 * 35};
  const auto pick = [&](bool pooled, double share) {
    const ResidualPick p = pick_layer(keys, values, {pooled, share}, *plan, room);
    return std::pair(p.key[0][0], p.value[0][0]);
  };
  using Pair = std::pair<uint64_t, uint64_t>;
  EXPECT_EQ(pick(false, 0), (Pair{0b00011110, 0b11110000}));
  EXPECT_EQ(pick(false, 0.12), (Pair{0b00011110, 0b11110000}));  // 33.12 bytes: none
  EXPECT_EQ(pick(false, 0.25), (Pair{0b11000110, 0b11110000}));  // 69: two
  EXPECT_EQ(pick(false, 0.75), (Pair{0b11101110, 0b11000000}));  // 207: six; 72 bytes are left, two values
  EXPECT_EQ(pick(false, 1), (Pair{0b11111110, 0b10000000}));     // all there are; 38 bytes left
  EXPECT_EQ(pick(true, 0), (Pair{0b00011110, 0b11110000}));
  EXPECT_EQ(pick(true, 0.25), (Pair{0b11001110, 0b11100000}));
}

}  // namespace
}  // namespace vestige::anchor
