// The heads of a layer, a cache each, share their residuals: as if the layer were coded in one piece.

#include "cache/policies/anchor/layer_ranking.h"

#include <bit>

#include "cache/policies/anchor/anchor_index.h"
#include "tests/cache/cache_fixture.h"

namespace vestige::anchor {
namespace {

using testing::make_stream;
using testing::MemoryStore;
using testing::Shape;

constexpr int64_t kD = 32, kRows = 300, kCoded = 256 - 32 - 4;  // less window and sinks
const Shape kShape = {{kD, kD, DType::kF32, false}, 128, 3};

BareLayer bare(const BytePlan& plan, std::vector<float> key, std::vector<float> value, double variance = 1) {
  const std::vector<uint8_t> none(key.size(), 0);
  return {.layer = {.plan = plan, .anchor_positions = {}, .position_ids = {}, .key = {}, .value = {}, .sketch = {}},
          .is_anchor = {none},
          .key_utility = {key},
          .value_utility = {std::move(value)},
          .key_cosine = {std::vector<float>(key.size(), 1.0f)},
          .value_variance = {variance}};
}

TEST(LayerRanking, BestOfAllHeadsForTheSumOfTheirPlans) {
  BytePlan plan;
  plan.n_key = 1;
  plan.n_value = 2;
  LayerRanking ranking({}, false);
  EXPECT_EQ(ranking.add(bare(plan, {5, 1, 4, 0}, {1, 1, 1, 1})), 0);
  EXPECT_EQ(ranking.add(bare(plan, {3, 3, 3, 2}, {1, 9, 0, 1})), 1);
  const ResidualPick first = ranking.take(0), second = ranking.take(1);
  EXPECT_EQ(first.key[0][0], 0b0101u);  // two keys and four values for both heads
  EXPECT_EQ(second.key[0][0], 0u);
  EXPECT_EQ(first.value[0][0], 0b0111u);  // equal: the lower head, then position
  EXPECT_EQ(second.value[0][0], 0b0010u);
}

TEST(LayerRanking, RelativeToTheValuesOfAHead) {
  BytePlan plan;
  plan.n_key = plan.n_value = 1;
  for (const bool relative : {false, true}) {
    LayerRanking ranking({}, relative);
    ranking.add(bare(plan, {5, 1, 4}, {7, 1, 8}, 10));
    ranking.add(bare(plan, {3, 3, 2}, {1, 3, 0}, 2));
    ranking.add(bare(plan, {0, 0, 0}, {0, 0, 0}, 0));  // no values: nothing to divide by
    EXPECT_EQ(ranking.take(0).key[0][0], relative ? 0u : 0b101u);
    EXPECT_EQ(ranking.take(1).key[0][0], relative ? 0b111u : 0b001u);
    EXPECT_EQ(ranking.take(0).value[0][0], 0b101u);
    EXPECT_EQ(ranking.take(1).value[0][0], 0b010u);
  }
}

class LayerFitTest : public ::testing::Test {
 protected:
  LayerFitTest() {
    rows_[0] = testing::make_rows(kRows, kShape.layout);
    rows_[1] = testing::make_rows(kRows, kShape.layout, 9);
    for (float& x : rows_[1]) x *= 1.25f;  // so that its residuals are worth more as they are
  }
  PolicyConfig config(double ratio, bool pooled, double budget = 1) const {
    PolicyConfig c;
    c.name = "anchor";
    c.block_rows = kShape.block_rows;
    c.ratio = ratio;
    c.settings = {{"rho", 1}, {"pooled", pooled ? 1 : 0}, {"budget", budget}};
    return c;
  }
  /// Both heads fitted, together or each by itself.
  std::vector<MemoryStore> fitted(const PolicyConfig& config, bool together) {
    const auto policy = create_policy(config, kShape.layout).value();
    const auto layer = policy->create_layer_fit();
    std::vector<std::unique_ptr<LayerCache>> caches;
    const ConstTensorView q(queries_.data(), DType::kF32, {40, kShape.h_q, 2 * kD});
    for (const auto& rows : rows_) {
      caches.push_back(LayerCache::create(kShape.layout, kShape.h_q, kShape.scale(), policy).value());
      EXPECT_TRUE(caches.back()->append(testing::view_rows(rows, kShape.layout, 0, kRows), *s_).ok());
    }
    for (const auto& c : caches) EXPECT_TRUE(!together || c->prepare_fit(q, *s_, {}, layer.get()).ok());
    std::vector<MemoryStore> out;
    for (const auto& c : caches) {
      EXPECT_TRUE(c->fit_recall(q, *s_, {}, together ? layer.get() : nullptr).ok());
      EXPECT_TRUE(c->rows_dropped());
      out.push_back(testing::saved(*c));
    }
    return out;
  }

  std::unique_ptr<Stream> s_ = make_stream();
  std::vector<float> rows_[2], queries_ = testing::make_queries(40, kShape.h_q, kShape.layout);
};

int64_t n_set(const std::vector<int64_t>& mask) {
  int64_t n = 0;
  for (const int64_t word : mask) n += std::popcount(static_cast<uint64_t>(word));
  return n;
}

// code_layer over both heads is the paper's rule, and has tests of its own.
TEST_F(LayerFitTest, EqualsCodingTheLayerInOnePiece) {
  for (const bool pooled : {false, true}) {
    const auto stores = fitted(config(6, pooled), true), apart = fitted(config(6, pooled), false);
    std::vector<float> key[2], value[2], q;
    std::vector<int32_t> positions;
    std::vector<HeadTokens> heads;
    for (size_t h = 0; h < 2; ++h) {
      for (int64_t u = 4; u < kRows; ++u) {
        const float* row = rows_[h].data() + u * 2 * kD;
        value[h].insert(value[h].end(), row, row + kD);
        key[h].insert(key[h].end(), row + kD, row + 2 * kD);
      }
    }
    for (int64_t i = 8; i < 40; ++i) {
      for (int64_t g = 0; g < kShape.h_q; ++g) {
        const float* row = queries_.data() + (i * kShape.h_q + g) * 2 * kD + kD;
        q.insert(q.end(), row, row + kD);
        positions.push_back(static_cast<int32_t>(kRows - 40 + i - 4));
      }
    }
    const auto m = static_cast<int64_t>(positions.size());
    for (size_t h = 0; h < 2; ++h) {
      heads.push_back({{key[h].data(), DType::kF32, {kRows - 4, kD}},
                       {value[h].data(), DType::kF32, {kRows - 4, kD}},
                       {q.data(), DType::kF32, {m, kD}}});
    }
    IndexSettings settings;
    settings.ratio = 6;
    settings.rho = 1;
    settings.pick.pooled = pooled;
    CodeSettings code = segment_settings(settings, kCoded, kD).value();
    // In one piece the two heads share 8 bytes of offsets: residuals of the same room.
    const auto n_budget = static_cast<int64_t>(4 * kCoded * kD / settings.ratio);
    code.ratio = double(8 * kCoded * kD) / (double(2 * n_budget - 8) + 0.5);
    const auto whole = code_layer({.heads = heads,
                                   .q_positions = {positions.data(), DType::kI32, {m}},
                                   .scale = kShape.scale(),
                                   .n_tokens = kCoded},
                                  code, *s_);
    ASSERT_TRUE(whole.ok()) << whole.status().message();
    int64_t n_bytes = 0, n_apart = 0, counts[2] = {0, 0};
    bool differs = false;
    for (size_t h = 0; h < 2; ++h) {
      const int64_t n_words = whole->plan.shape.n_words();
      for (const bool is_key : {true, false}) {
        const std::string name = is_key ? "anchor0_key_mask" : "anchor0_value_mask";
        const CodedSide& side = is_key ? whole->key : whole->value;
        const std::vector<int64_t> got = stores[h].values<int64_t>(name);
        const auto from = side.mask.begin() + static_cast<int64_t>(h) * n_words;
        EXPECT_EQ(got, std::vector<int64_t>(from, from + n_words)) << name << " of head " << h;
        differs = differs || got != apart[h].values<int64_t>(name);
        counts[h] += n_set(got);
      }
      for (const auto& [name, tensor] : stores[h].tensors) {
        if (name.starts_with("anchor0_")) n_bytes += static_cast<int64_t>(tensor.bytes.size());
      }
      for (const auto& [name, tensor] : apart[h].tensors) {
        if (name.starts_with("anchor0_")) n_apart += static_cast<int64_t>(tensor.bytes.size());
      }
    }
    EXPECT_TRUE(differs);
    EXPECT_GT(counts[1], counts[0]);
    // The same bytes for the layer as for its heads; of keys and values in one ranking, all that fit.
    EXPECT_LE(std::abs(n_bytes - n_apart), pooled ? 2 * whole->plan.value_residual_bytes() : 0);
    EXPECT_LE(n_bytes, 2 * (4 * kCoded * kD / 6));
  }
}

// Values four times as large, read by weights a quarter as large, are the same model.
TEST_F(LayerFitTest, NoScaleOfValuesChangesARelativeRanking) {
  const auto masks = [&](double budget) {
    std::vector<std::vector<int64_t>> out;
    for (const MemoryStore& store : fitted(config(6, false, budget), true)) {
      out.push_back(store.values<int64_t>("anchor0_key_mask"));
      out.push_back(store.values<int64_t>("anchor0_value_mask"));
    }
    return out;
  };
  const auto relative = masks(0), absolute = masks(1);
  EXPECT_NE(relative, absolute);
  for (int64_t u = 0; u < kRows; ++u) {
    for (int64_t j = 0; j < kD; ++j) rows_[0][static_cast<size_t>(u * 2 * kD + j)] *= 4;
  }
  EXPECT_EQ(masks(0), relative);
  EXPECT_NE(masks(1), absolute);
}

TEST_F(LayerFitTest, RefusesHalfAFit) {
  const auto policy = create_policy(config(6, false), kShape.layout).value();
  const auto layer = policy->create_layer_fit();
  auto c = LayerCache::create(kShape.layout, kShape.h_q, kShape.scale(), policy).value();
  VESTIGE_ASSERT_OK(c->append(testing::view_rows(rows_[0], kShape.layout, 0, kRows), *s_));
  const ConstTensorView q(queries_.data(), DType::kF32, {40, kShape.h_q, 2 * kD});
  EXPECT_EQ(c->fit_recall(q, *s_, {}, layer.get()).code(), StatusCode::kInternal);
  EXPECT_FALSE(c->rows_dropped());
  VESTIGE_ASSERT_OK(c->prepare_fit(q, *s_, {}, layer.get()));
  const auto another = policy->create_layer_fit();
  EXPECT_EQ(c->fit_recall(q, *s_, {}, another.get()).code(), StatusCode::kInternal);
  VESTIGE_ASSERT_OK(c->fit_recall(q, *s_, {}, layer.get()));
  PolicyConfig own = config(6, false);
  own.settings["budget"] = 2;
  EXPECT_EQ(create_policy(own, kShape.layout).value()->create_layer_fit(), nullptr);
}

}  // namespace
}  // namespace vestige::anchor
