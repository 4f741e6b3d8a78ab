// The byte plan against the worked numbers of the reference (AnchorKV, Table 1, Eq. 9 and 13: computed there by hand
// and by an independent script), and against Eq. 13 written out.

#include "cache/policies/anchor/byte_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace vestige::anchor {
namespace {

/// Llama-3.1-8B.
LayerShape llama(int64_t n_tokens) {
  return {.n_tokens = n_tokens, .window = 32, .n_anchors = n_tokens / 128, .n_heads = 8, .d = 128};
}

BytePlan plan(const LayerShape& shape, const CodeLayout& layout, double ratio) {
  auto made = plan_bytes(shape, layout, ratio);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? *made : BytePlan();
}

TEST(BytePlan, WorkedExample) {
  const BytePlan p = plan(llama(32768), paper_layout(), 20);
  EXPECT_EQ(p.full_bytes, 134217728);
  EXPECT_EQ(p.budget_bytes, 6710886);
  EXPECT_EQ(p.base_bytes(), 3387336);
  EXPECT_EQ(p.n_residuals(), 91056);
  EXPECT_EQ(p.n_key, 45528);
  EXPECT_EQ(p.n_value, 45528);
  EXPECT_EQ(p.total_bytes(), 6710880);
  EXPECT_EQ(p.key_residual_bytes(), 36);
  EXPECT_EQ(p.value_residual_bytes(), 37);
  EXPECT_EQ(p.shape.n_candidates(), 260096);
  EXPECT_NEAR(p.density(), 0.1738, 5e-5);
  EXPECT_NEAR(p.ratio_after(60), 19.33, 0.005);
  EXPECT_NEAR(static_cast<double>(p.full_bytes) / static_cast<double>(p.base_bytes()), 39.62, 0.005);
}

TEST(BytePlan, Lengths) {
  const struct {
    int64_t n_tokens, base, n;
    double density;
  } kWant[] = {{8192, 843720, 22849, 17.50},    {16384, 1691592, 45584, 17.42},   {32768, 3387336, 91056, 17.38},
               {65536, 6778824, 181998, 17.37}, {98304, 10170312, 272941, 17.36}, {131072, 13561800, 363883, 17.36}};
  for (const auto& want : kWant) {
    const BytePlan p = plan(llama(want.n_tokens), paper_layout(), 20);
    EXPECT_EQ(p.base_bytes(), want.base) << want.n_tokens;
    EXPECT_EQ(p.n_residuals(), want.n) << want.n_tokens;
    EXPECT_NEAR(100 * p.density(), want.density, 0.0051) << want.n_tokens;
    EXPECT_LE(p.total_bytes(), p.budget_bytes) << want.n_tokens;
  }
}

TEST(BytePlan, Ratios) {
  const struct { double ratio, density; } kWant[] = {{10, 52.5}, {15, 29.1}, {20, 17.4}, {30, 5.7}};
  for (const auto& want : kWant) {
    EXPECT_NEAR(100 * plan(llama(32768), paper_layout(), want.ratio).density(), want.density, 0.051) << want.ratio;
  }
}

// At 5x more residuals are affordable than there are tokens to repair: the plan stops at 6.00x.
TEST(BytePlan, SaturatesAtTheCandidates) {
  const BytePlan p = plan(llama(32768), paper_layout(), 5);
  EXPECT_EQ(p.n_key, 260096);
  EXPECT_EQ(p.n_value, 260096);
  EXPECT_NEAR(static_cast<double>(p.full_bytes) / static_cast<double>(p.total_bytes()), 6.00, 0.005);
  EXPECT_NEAR(static_cast<double>(p.budget_bytes - p.base_bytes()) / 36.5 / (2.0 * 8 * 32736), 1.23, 0.005);
}

TEST(BytePlan, LeanerLayouts) {
  CodeLayout layout = paper_layout();
  const auto expect = [&](int64_t base, int64_t n, double density) {
    const BytePlan p = plan(llama(32768), layout, 20);
    EXPECT_EQ(p.base_bytes(), base);
    EXPECT_EQ(p.n_residuals(), n);
    EXPECT_NEAR(100 * p.density(), density, 0.051);
  };
  layout.scale_bytes = 2;
  expect(3387336, 96334, 18.4);
  layout = paper_layout();
  layout.index_bytes = 1;
  expect(2863560, 105406, 20.1);
  layout.gamma_bytes = 1;
  layout.scale_bytes = 2;
  expect(2339784, 126698, 24.2);
  layout.position_id_bytes = 0;
  layout.anchor_position_bytes = 4;
  EXPECT_EQ(layout, lean_layout(256));
  expect(2201672, 130701, 25.0);
  layout.key_bound_bytes = 1;
  expect(2463560, 123110, 23.5);
  layout.value_bound_bytes = 1;
  expect(2725448, 115519, 22.1);
  EXPECT_EQ(lean_layout(257).index_bytes, 2);
}

TEST(BytePlan, OtherShapes) {
  LayerShape shape = llama(32768);
  shape.d = 64;
  EXPECT_NEAR(100 * plan(shape, paper_layout(), 20).density(), 4.6, 0.051);
  shape = llama(32768);
  shape.n_heads = 4;
  EXPECT_NEAR(100 * plan(shape, paper_layout(), 20).density(), 16.7, 0.051);
  shape.n_heads = 2;
  EXPECT_NEAR(100 * plan(shape, paper_layout(), 20).density(), 15.3, 0.051);
  // 128 anchors and a one-byte index, even with f32 scales.
  shape = llama(32768);
  shape.n_anchors = 128;
  CodeLayout layout = paper_layout();
  layout.index_bytes = 1;
  EXPECT_NEAR(100 * plan(shape, layout, 20).density(), 22.9, 0.051);
  EXPECT_EQ(default_anchors(32768, 32), 256);
  EXPECT_EQ(default_anchors(100, 32), 32);
}

// Eq. 13 and the budget for many shapes, odd counts among them; one residual more would not fit.
TEST(BytePlan, SpendsTheBudgetAndNoByteMore) {
  int n_odd = 0;
  for (int64_t n_tokens = 1000; n_tokens < 9000; n_tokens += 371) {
    for (const int64_t h : {1, 3, 8}) {
      for (const int64_t d : {64, 128}) {
        for (const double ratio : {3.0, 7.3, 10.0, 12.9}) {
          const LayerShape shape = {
              .n_tokens = n_tokens, .window = 17, .n_anchors = 17 + n_tokens / 200, .n_heads = h, .d = d};
          const auto made = plan_bytes(shape, paper_layout(), ratio);
          ASSERT_TRUE(made.ok()) << made.status().message();
          const BytePlan& p = *made;
          const int64_t coded = n_tokens - 17, words = (coded + 63) / 64;
          EXPECT_EQ(p.base_bytes(), h * (4 * shape.n_anchors * d + 8 * (shape.n_anchors - 17) + 2 * coded * 4) +
                                        24 * h * words + 8 * (h + 1) + 4 * coded);
          EXPECT_LE(p.total_bytes(), p.budget_bytes);
          EXPECT_LE(p.n_value, shape.n_candidates());
          EXPECT_GE(p.n_value, p.n_key);
          if (p.n_value == shape.n_candidates()) continue;
          EXPECT_LT(p.budget_bytes - p.total_bytes(),
                    p.n_value > p.n_key ? p.key_residual_bytes() : p.value_residual_bytes());
          n_odd += p.n_value > p.n_key;
        }
      }
    }
  }
  EXPECT_GT(n_odd, 0);
}

TEST(BytePlan, GivenCounts) {
  EXPECT_TRUE(plan_bytes(llama(32768), paper_layout(), 20, 45528, 45528).ok());
  const auto uneven = plan_bytes(llama(32768), paper_layout(), 20, 80000, 11987);
  ASSERT_TRUE(uneven.ok());
  EXPECT_EQ(uneven->total_bytes(), 3387336 + 80000 * 36 + 11987 * 37);
  EXPECT_FALSE(plan_bytes(llama(32768), paper_layout(), 20, 45529, 45528).ok());
  EXPECT_FALSE(plan_bytes(llama(32768), paper_layout(), 5, 260097, 0).ok());
  EXPECT_FALSE(plan_bytes(llama(32768), paper_layout(), 5, -1, 0).ok());
}

void expect_refused(const LayerShape& shape, const CodeLayout& layout, double ratio, const char* word) {
  const auto made = plan_bytes(shape, layout, ratio);
  ASSERT_FALSE(made.ok()) << word;
  EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(made.status().message().find(word), std::string::npos) << made.status().message();
}

TEST(BytePlan, RefusesWhatIsOutOfRange) {
  const auto with = [](auto change) {
    LayerShape shape = llama(32768);
    change(shape);
    return shape;
  };
  const CodeLayout paper = paper_layout();
  for (const int64_t n : {int64_t{0}, int64_t{-5}, int64_t{1} << 31, std::numeric_limits<int64_t>::max()}) {
    expect_refused(with([&](LayerShape& s) { s.n_tokens = n; }), paper, 20, "n_tokens");
    expect_refused(with([&](LayerShape& s) { s.n_heads = n; }), paper, 20, "n_heads");
    expect_refused(with([&](LayerShape& s) { s.d = n; }), paper, 20, "d = ");
    expect_refused(with([&](LayerShape& s) { s.n_anchors = n; }), paper, 20, "n_anchors");
    if (n != 0) expect_refused(with([&](LayerShape& s) { s.window = n; }), paper, 20, "window");
  }
  expect_refused(with([](LayerShape& s) { s.d = 96; }), paper, 20, "power of two");
  expect_refused(with([](LayerShape& s) { s.n_anchors = 31; }), paper, 20, "n_anchors");
  CodeLayout layout = paper;
  layout.bits = 5;
  expect_refused(llama(32768), layout, 20, "bits");
  layout = lean_layout(256);
  expect_refused(llama(65536), layout, 20, "one-byte");
  const double inf = std::numeric_limits<double>::infinity();
  for (const double ratio : {0.5, -1.0, 0.0, inf, std::nan("")}) expect_refused(llama(32768), paper, ratio, "ratio");
  expect_refused(llama(32768), paper, 40, "at most 39.62");
}

// The largest shape there may be: no sum overflows.
TEST(BytePlan, LargestShape) {
  const LayerShape shape = {.n_tokens = INT32_MAX, .window = 32, .n_anchors = 65536, .n_heads = 4096, .d = 4096};
  const BytePlan p = plan(shape, paper_layout(), 2);
  EXPECT_EQ(p.full_bytes, int64_t{4} * INT32_MAX * 4096 * 4096);
  EXPECT_LE(p.n_value, INT32_MAX);
  EXPECT_GT(p.total_bytes(), 0);
  EXPECT_LE(p.total_bytes(), p.budget_bytes);
}

TEST(BytePlan, AllTokensInTheWindow) {
  const LayerShape shape = {.n_tokens = 32, .window = 32, .n_anchors = 32, .n_heads = 2, .d = 64};
  const auto made = plan_bytes(shape, lean_layout(32), 1);
  EXPECT_FALSE(made.ok());  // offsets come on top of 16-bit keys and values
}

}  // namespace
}  // namespace vestige::anchor
