// A coded layer: its bytes against the plan, its tokens against what the codec promises, its attention against float64,
// and that ranking and repair do what they are for.

#include "cache/policies/anchor/coded_layer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "base/half.h"
#include "cache/policies/anchor/certificate.h"
#include "cache/policies/anchor/utility.h"

namespace vestige::anchor {
namespace {

std::unique_ptr<Stream> stream(const char* backend = "cpu", int32_t n_threads = 2) {
  auto made = Stream::create({.backend = backend, .n_threads = n_threads, .pin_threads = false});
  return made.ok() ? std::move(made).value() : nullptr;
}

/// Random tokens in clusters, bf16 as a cache holds them, and queries of the last positions.
struct Layer {
  int64_t n, h, d, m;
  std::vector<std::vector<uint16_t>> keys, values;
  std::vector<std::vector<float>> queries;
  std::vector<int32_t> q_positions;
  std::vector<float> frequencies;
  std::vector<HeadTokens> heads;

  Layer(int64_t n_in, int64_t h_in, int64_t d_in, bool turned, uint64_t seed) : n(n_in), h(h_in), d(d_in), m(32) {
    std::mt19937_64 rng(seed);
    std::normal_distribution<float> normal;
    std::vector<float> centres(static_cast<size_t>(20 * d));
    for (float& c : centres) c = normal(rng);
    for (int64_t w = 0; w < m; ++w) q_positions.push_back(static_cast<int32_t>(n - 16 + w / 2));
    for (int64_t j = 0; turned && j < d / 2; ++j) frequencies.push_back(std::pow(1e4f, -2.0f * float(j) / float(d)));
    for (int64_t i = 0; i < h; ++i) {
      keys.push_back(tokens(centres, rng, 1));
      values.push_back(tokens(centres, rng, -1));
      queries.emplace_back(static_cast<size_t>(m * d));
      for (float& q : queries.back()) q = 2 * normal(rng);
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      heads.push_back({{keys[i].data(), DType::kBF16, {n, d}},
                       {values[i].data(), DType::kBF16, {n, d}},
                       {queries[i].data(), DType::kF32, {m, d}}});
    }
  }

  LayerTokens view() const {
    LayerTokens t = {.heads = heads, .q_positions = {q_positions.data(), DType::kI32, {m}}};
    if (!frequencies.empty()) t.frequencies = {frequencies.data(), DType::kF32, {d / 2}};
    t.interleaved = false;
    t.scale = 1.0f / std::sqrt(static_cast<float>(d));
    return t;
  }

 private:
  std::vector<uint16_t> tokens(const std::vector<float>& centres, std::mt19937_64& rng, float sign) const {
    std::normal_distribution<float> normal;
    std::vector<uint16_t> x;
    for (int64_t t = 0; t < n; ++t) {
      const size_t centre = rng() % 20 * static_cast<size_t>(d);
      const float size = sign * std::exp(0.3f * normal(rng));
      for (int64_t j = 0; j < d; ++j) {
        x.push_back(f32_to_bf16(size * (centres[centre + static_cast<size_t>(j)] + 0.5f * normal(rng))));
      }
    }
    return x;
  }
};

CodeSettings settings(const CodeLayout& layout, double ratio, int64_t n_anchors = 48) {
  CodeSettings s;
  s.layout = layout;
  s.ratio = ratio;
  s.n_anchors = n_anchors;
  return s;
}

CodedLayer coded(const Layer& layer, const CodeSettings& s, Stream& on) {
  auto made = code_layer(layer.view(), s, on);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? std::move(made).value() : CodedLayer();
}

int64_t residuals_of(const CodedSide& side) {
  int64_t n = 0;
  for (int64_t word : side.mask) n += std::popcount(static_cast<uint64_t>(word));
  return n;
}

TEST(CodedLayer, BytesEqualThePlan) {
  const Layer layer(1500, 3, 64, true, 1);
  CodeLayout bounded = lean_layout(48);
  bounded.key_bound_bytes = 1;
  CodeLayout four_bits = lean_layout(48), sketched = bounded;
  four_bits.bits = 4;
  sketched.value_bound_bytes = 1;
  sketched.sketch_bytes = 5;
  for (const CodeLayout& layout : {paper_layout(), lean_layout(48), bounded, four_bits, sketched}) {
    for (const double ratio : {2.0, 4.0, 6.0}) {
      for (const bool pooled : {false, true}) {
        CodeSettings s = settings(layout, ratio);
        s.pick.pooled = pooled;
        const CodedLayer c = coded(layer, s, *stream());
        EXPECT_EQ(c.n_bytes(), c.plan.total_bytes()) << ratio;
        EXPECT_LE(c.n_bytes(), c.plan.budget_bytes) << ratio;
        EXPECT_GT(c.plan.n_key, 0) << ratio;
        EXPECT_EQ(residuals_of(c.key), c.plan.n_key);
        EXPECT_EQ(residuals_of(c.value), c.plan.n_value);
        EXPECT_EQ(c.key.offset.back(), c.plan.n_key);
        EXPECT_EQ(c.value.offset.back(), c.plan.n_value);
        EXPECT_EQ(static_cast<int64_t>(c.value.slot.size()), c.plan.n_value);
      }
    }
  }
}

TEST(CodedLayer, SameBytesForAnyThreadsAndBackend) {
  const Layer layer(700, 2, 64, true, 2);
  CodeLayout sketched = lean_layout(48);
  sketched.key_bound_bytes = sketched.value_bound_bytes = 1;
  sketched.sketch_bytes = 8;
  const CodeSettings s = settings(sketched, 4);
  const CodedLayer a = coded(layer, s, *stream("cpu", 1)), b = coded(layer, s, *stream("cpu", 3));
  EXPECT_EQ(a.key.bound, b.key.bound);
  EXPECT_EQ(a.sketch.codes, b.sketch.codes);
  EXPECT_EQ(a.key.mask, b.key.mask);
  EXPECT_EQ(a.key.codes, b.key.codes);
  EXPECT_EQ(a.key.gamma, b.key.gamma);
  EXPECT_EQ(a.value.index, b.value.index);
  EXPECT_EQ(a.value.scale, b.value.scale);
  EXPECT_EQ(a.anchor_positions, b.anchor_positions);
  const CodedLayer ref = coded(layer, s, *stream("ref"));
  EXPECT_EQ(a.key.index, ref.key.index);
  EXPECT_EQ(a.key.anchors, ref.key.anchors);
}

// Each setting by itself and all together.
TEST(CodedLayer, EverySettingKeepsThePlanAndItsBits) {
  const Layer layer(700, 2, 64, true, 12);
  std::vector<CodeSettings> all;
  const auto add = [&](AnchorRule rule, double rho, double key_share, int64_t near, bool pooled) {
    CodeSettings& s = all.emplace_back(settings(lean_layout(48), 8));
    s.anchors = rule;
    s.rho = rho;
    s.n_near = near;
    s.pick = {pooled, key_share};
  };
  add(AnchorRule::kDrawn, 0.7, 0, 0, false);
  add(AnchorRule::kFarthest, 0.7, 0, 0, false);
  add(AnchorRule::kFarthest, 0, 0, 0, false);
  add(AnchorRule::kCentral, 0, 0, 0, false);
  add(AnchorRule::kDrawn, 0.7, 0.2, 0, false);
  add(AnchorRule::kDrawn, 0.7, 0.8, 0, false);
  add(AnchorRule::kDrawn, 0.7, 0, 128, false);
  add(AnchorRule::kCentral, 0.5, 0.3, 128, true);
  std::vector<std::vector<uint8_t>> seen;
  for (const CodeSettings& s : all) {
    const CodedLayer a = coded(layer, s, *stream("cpu", 1)), b = coded(layer, s, *stream("cpu", 3));
    EXPECT_EQ(a.n_bytes(), a.plan.total_bytes());
    EXPECT_LE(a.n_bytes(), a.plan.budget_bytes);
    EXPECT_LE(a.plan.budget_bytes - a.n_bytes(), a.plan.value_residual_bytes());
    const auto room = static_cast<double>(a.plan.budget_bytes - a.plan.base_bytes());
    const int64_t key_bytes = a.plan.key_residual_bytes();
    EXPECT_GE(static_cast<double>((a.plan.n_key + 1) * key_bytes), s.pick.key_share * room);
    EXPECT_TRUE(check_layer(a).ok());
    EXPECT_EQ(a.anchor_positions, b.anchor_positions);
    EXPECT_EQ(a.key.mask, b.key.mask);
    EXPECT_EQ(a.key.codes, b.key.codes);
    EXPECT_EQ(a.value.mask, b.value.mask);
    EXPECT_EQ(a.value.codes, b.value.codes);
    for (const std::vector<uint8_t>& other : seen) EXPECT_NE(a.key.codes, other);
    seen.push_back(a.key.codes);
  }
}

// Queries stand at the last 16 of 900 tokens; 868 are coded.
TEST(CodedLayer, NearRowsHaveNoWeight) {
  const Layer layer(900, 1, 64, true, 13);
  CodeSettings s = settings(lean_layout(48), 8);
  s.rho = 1;
  for (const int64_t near : {0, 200, 5000}) {
    s.n_near = near;
    const auto bare = code_bare(layer.view(), s, *stream());
    ASSERT_TRUE(bare.ok()) << bare.status().message();
    const int64_t first = 900 - std::min<int64_t>(near, 900 / 4);
    for (int64_t t = 0; t < 868; ++t) {
      const auto at = static_cast<size_t>(t);
      if (bare->is_anchor[0][at] != 0) {
        EXPECT_LT(t, first + 3) << "scores are averaged over 7 tokens";
        continue;
      }
      EXPECT_EQ(bare->key_utility[0][at] > 0, t < first) << t;
      EXPECT_EQ(bare->value_utility[0][at] > 0, t < first) << t;
    }
  }
  s.rho = 0;
  s.utility = "query_free";
  const auto with = code_bare(layer.view(), s, *stream());
  s.n_near = 0;
  const auto without = code_bare(layer.view(), s, *stream());
  EXPECT_EQ(with->key_utility, without->key_utility) << "query_free takes no weights";
  EXPECT_EQ(with->value_utility, without->value_utility);
}

double square(const std::vector<uint16_t>& x, const float* y, int64_t t, int64_t d) {
  double sum = 0;
  for (int64_t j = 0; j < d; ++j) {
    const double v = static_cast<double>(bf16_to_f32(x[static_cast<size_t>(t * d + j)]));
    const double gap = y == nullptr ? v : v - static_cast<double>(y[t * d + j]);
    sum += gap * gap;
  }
  return sum;
}

// Anchors are exact; every other token is no further off than its distance to the line through the anchor (2.3% more
// for a gamma of one byte); a repaired one has about an eighth of that energy left.
TEST(CodedLayer, TokensAreWhatTheCodecPromises) {
  const Layer layer(1200, 2, 64, true, 3);
  for (const CodeLayout& layout : {paper_layout(), lean_layout(48)}) {
    const CodedLayer c = coded(layer, settings(layout, layout == paper_layout() ? 6 : 8), *stream());
    const int64_t n = c.plan.shape.n_coded();
    std::vector<float> x(static_cast<size_t>(n * 64));
    for (int64_t h = 0; h < 2; ++h) {
      for (const bool is_key : {true, false}) {
        const CodedSide& side = is_key ? c.key : c.value;
        const auto& exact = (is_key ? layer.keys : layer.values)[static_cast<size_t>(h)];
        ASSERT_TRUE(decode_side(c, side, h, {x.data(), DType::kF32, {n, 64}}, *stream()).ok());
        std::vector<bool> anchor(static_cast<size_t>(n), false);
        for (int64_t a = 0; a < c.plan.shape.n_selected(); ++a)
          anchor[static_cast<size_t>(c.anchor_position(h, a))] = true;
        double coarse = 0, repaired = 0;
        int64_t n_coarse = 0, n_repaired = 0;
        for (int64_t t = 0; t < n; ++t) {
          const auto word = static_cast<uint64_t>(side.mask[static_cast<size_t>(h * c.plan.shape.n_words() + t / 64)]);
          const bool has = (word >> (t % 64) & 1) != 0;
          const double left = square(exact, x.data(), t, 64) / square(exact, nullptr, t, 64);
          EXPECT_LE(left, 1.0011) << t;
          if (anchor[static_cast<size_t>(t)]) {
            EXPECT_EQ(left, 0) << t;
            EXPECT_FALSE(has) << t;
            continue;
          }
          (has ? repaired : coarse) += left;
          ++(has ? n_repaired : n_coarse);
        }
        ASSERT_GT(n_repaired, 20);
        EXPECT_LT(repaired / double(n_repaired), 0.16 * coarse / double(n_coarse));
      }
    }
  }
}

/// Exact attention of query row `w` of head h over the coded tokens, in float64: scores, and the output.
struct Exact {
  std::vector<double> score, out;
};

Exact attend(const Layer& layer, int64_t h, int64_t w, int64_t n) {
  Exact exact;
  exact.out.assign(static_cast<size_t>(layer.d), 0.0);
  const auto& keys = layer.keys[static_cast<size_t>(h)];
  const float* q = layer.queries[static_cast<size_t>(h)].data() + w * layer.d;
  for (int64_t t = 0; t < n; ++t) {
    double sum = 0;
    for (int64_t j = 0; j < layer.d / 2; ++j) {
      double a = double(bf16_to_f32(keys[static_cast<size_t>(t * layer.d + j)]));
      double b = double(bf16_to_f32(keys[static_cast<size_t>(t * layer.d + layer.d / 2 + j)]));
      const double angle =
          layer.frequencies.empty() ? 0 : double(t) * double(layer.frequencies[static_cast<size_t>(j)]);
      sum += double(q[j]) * (a * std::cos(angle) - b * std::sin(angle)) +
             double(q[layer.d / 2 + j]) * (a * std::sin(angle) + b * std::cos(angle));
    }
    exact.score.push_back(sum / std::sqrt(double(layer.d)));
  }
  double total = 0;
  for (double s : exact.score) total += std::exp(s);
  for (int64_t t = 0; t < n; ++t) {
    const double weight = std::exp(exact.score[static_cast<size_t>(t)]) / total;
    for (int64_t j = 0; j < layer.d; ++j) {
      exact.out[static_cast<size_t>(j)] +=
          weight * double(bf16_to_f32(layer.values[static_cast<size_t>(h)][static_cast<size_t>(t * layer.d + j)]));
    }
  }
  return exact;
}

struct CodedOut {
  std::vector<float> out, scores;
};

CodedOut attend(const Layer& layer, const CodedLayer& c, Stream& on) {
  const int64_t n = c.plan.shape.n_coded();
  std::vector<float> q, lse(static_cast<size_t>(layer.h * layer.m));
  std::vector<AnchoredHead> heads;
  for (int64_t h = 0; h < layer.h; ++h) {
    q.insert(q.end(), layer.queries[static_cast<size_t>(h)].begin(), layer.queries[static_cast<size_t>(h)].end());
    heads.push_back(c.head(h));
  }
  CodedOut o = {std::vector<float>(q.size()), std::vector<float>(static_cast<size_t>(layer.h * layer.m * n))};
  const LayerTokens view = layer.view();
  const Status status = ops::attend_anchored({.q = {q.data(), DType::kF32, {layer.h, layer.m, layer.d}},
                                              .heads = heads,
                                              .bits = c.plan.layout.bits,
                                              .seed = c.rotation_seed,
                                              .frequencies = view.frequencies,
                                              .interleaved = false,
                                              .scale = view.scale,
                                              .out = {o.out.data(), DType::kF32, {layer.h, layer.m, layer.d}},
                                              .lse = {lse.data(), DType::kF32, {layer.h, layer.m}},
                                              .scores = {o.scores.data(), DType::kF32, {layer.h, layer.m, n}}},
                                             on);
  EXPECT_TRUE(status.ok()) << status.message();
  return o;
}

double mean_error(const Layer& layer, const CodedLayer& c) {
  const CodedOut o = attend(layer, c, *stream());
  double sum = 0;
  for (int64_t h = 0; h < layer.h; ++h) {
    for (int64_t w = 0; w < layer.m; ++w) {
      const Exact exact = attend(layer, h, w, c.plan.shape.n_coded());
      for (int64_t j = 0; j < layer.d; ++j) {
        sum += std::pow(
            exact.out[static_cast<size_t>(j)] - double(o.out[static_cast<size_t>((h * layer.m + w) * layer.d + j)]), 2);
      }
    }
  }
  return sum / double(layer.h * layer.m);
}

// What the utilities are for: less squared output error at the same bytes than residuals drawn at random, for the
// queries that were observed.
TEST(CodedLayer, UtilitiesBeatTheDraw) {
  for (const bool turned : {false, true}) {
    const Layer layer(1200, 2, 64, turned, 4);
    CodeSettings s = settings(lean_layout(48), 8);
    s.utility = "random";
    const double random = mean_error(layer, coded(layer, s, *stream()));
    for (const char* rule : {"first_order", "one_token"}) {
      s.utility = rule;
      EXPECT_LT(mean_error(layer, coded(layer, s, *stream())), 0.6 * random) << rule << " " << turned;
    }
    s.utility = "query_free";
    EXPECT_LT(mean_error(layer, coded(layer, s, *stream())), random) << turned;
    s.utility = "first_order";
    const double split = mean_error(layer, coded(layer, s, *stream()));
    s.pick.pooled = true;
    EXPECT_LT(mean_error(layer, coded(layer, s, *stream())), 1.1 * split) << turned;
  }
}

// From stored bounds to a certificate of the output: 0 violations over every query and head.
TEST(CodedLayer, StoredBoundsCertifyTheOutput) {
  for (const bool turned : {false, true}) {
    const Layer layer(900, 2, 64, turned, 5);
    CodeLayout layout = lean_layout(48);
    layout.key_bound_bytes = layout.value_bound_bytes = 1;
    const CodedLayer c = coded(layer, settings(layout, 4), *stream());
    const CodedOut o = attend(layer, c, *stream());
    const int64_t n = c.plan.shape.n_coded();
    std::vector<float> value(static_cast<size_t>(n * 64));
    int64_t n_useful = 0;
    for (int64_t h = 0; h < layer.h; ++h) {
      ASSERT_TRUE(decode_side(c, c.value, h, {value.data(), DType::kF32, {n, 64}}, *stream()).ok());
      for (int64_t w = 0; w < layer.m; ++w) {
        const Exact exact = attend(layer, h, w, n);
        const int64_t row = h * layer.m + w;
        const float* out = o.out.data() + row * 64;
        double q_norm = 0, gap = 0;
        for (int64_t j = 0; j < 64; ++j) {
          q_norm += std::pow(double(layer.queries[static_cast<size_t>(h)][static_cast<size_t>(w * 64 + j)]), 2);
          gap += std::pow(exact.out[static_cast<size_t>(j)] - double(out[j]), 2);
        }
        std::vector<float> weight, logit_error, value_error, value_norm;
        for (int64_t t = 0; t < n; ++t) {
          const auto at = static_cast<size_t>(h * n + t);
          const float score = o.scores[static_cast<size_t>(row * n + t)];
          weight.push_back(std::exp(score));
          const double key_bound = double(CodedLayer::kBoundBase) * std::exp2(c.key.bound[at] / 16.0) * 1.000001;
          logit_error.push_back(static_cast<float>(std::sqrt(q_norm) * key_bound / 8 * 1.000001));
          EXPECT_LE(std::abs(double(score) - exact.score[static_cast<size_t>(t)]), double(logit_error.back()) + 1e-4);
          value_error.push_back(
              static_cast<float>(double(CodedLayer::kBoundBase) * std::exp2(c.value.bound[at] / 16.0) * 1.000001));
          double square_norm = 0;
          for (int64_t j = 0; j < 64; ++j)
            square_norm += std::pow(double(value[static_cast<size_t>(t * 64 + j)]) - double(out[j]), 2);
          value_norm.push_back(static_cast<float>(std::sqrt(square_norm) * 1.000001));
        }
        const auto bound = certify_step({weight, logit_error, value_error, value_norm, 1e-4});
        ASSERT_TRUE(bound.ok());
        EXPECT_LE(std::sqrt(gap), bound->output + 1e-4);
        n_useful += bound->l1 < 2;
      }
    }
    EXPECT_GT(n_useful, 0);
  }
}

// The stored bound is above the distance, by less than a step of its grid (4.4%) and what covers rounding.
TEST(CodedLayer, BoundsAreRoundedUp) {
  const Layer layer(900, 2, 64, true, 5);
  CodeLayout layout = lean_layout(48);
  layout.key_bound_bytes = layout.value_bound_bytes = 1;
  const CodedLayer c = coded(layer, settings(layout, 4), *stream());
  const int64_t n = c.plan.shape.n_coded();
  std::vector<float> x(static_cast<size_t>(n * 64));
  for (int64_t h = 0; h < layer.h; ++h) {
    for (const bool is_key : {true, false}) {
      const CodedSide& side = is_key ? c.key : c.value;
      ASSERT_TRUE(decode_side(c, side, h, {x.data(), DType::kF32, {n, 64}}, *stream()).ok());
      for (int64_t t = 0; t < n; ++t) {
        const auto& exact = (is_key ? layer.keys : layer.values)[static_cast<size_t>(h)];
        const double gap = std::sqrt(square(exact, x.data(), t, 64));
        const double bound =
            double(CodedLayer::kBoundBase) * std::exp2(side.bound[static_cast<size_t>(h * n + t)] / 16.0);
        EXPECT_LE(gap, bound * 1.000001);
        EXPECT_GE(std::max(gap, 0.01), bound / 1.05);
      }
    }
  }
}

TEST(CodedLayer, ZeroTokens) {
  Layer layer(500, 1, 64, true, 6);
  std::fill_n(layer.keys[0].begin(), 100 * 64, uint16_t{0});
  std::fill(layer.values[0].begin(), layer.values[0].end(), uint16_t{0});
  const CodedLayer c = coded(layer, settings(lean_layout(48), 3), *stream());
  std::vector<float> x(static_cast<size_t>(c.plan.shape.n_coded() * 64));
  for (const CodedSide* side : {&c.key, &c.value}) {
    ASSERT_TRUE(decode_side(c, *side, 0, {x.data(), DType::kF32, {c.plan.shape.n_coded(), 64}}, *stream()).ok());
    for (size_t i = 0; i < 100 * 64; ++i) EXPECT_EQ(x[i], 0.0f);
  }
  const CodedOut o = attend(layer, c, *stream());
  for (float v : o.out) EXPECT_EQ(v, 0.0f);
}

// What a damaged file could hold, one array at a time.
TEST(CodedLayer, CheckFindsDamage) {
  const Layer layer(500, 2, 64, true, 8);
  CodeLayout wide = paper_layout();
  wide.key_bound_bytes = 1;
  wide.sketch_bytes = 6;
  for (const CodeLayout& layout : {lean_layout(48), wide}) {
    const CodedLayer good = coded(layer, settings(layout, 4), *stream());
    const Status fine = check_layer(good);
    EXPECT_TRUE(fine.ok()) << fine.message();
    using Damage = void (*)(CodedLayer*);
    const Damage damages[] = {
        [](CodedLayer* c) { c->key.index[10 * size_t(c->plan.layout.index_bytes)] = 48; },
        [](CodedLayer* c) { c->value.index.back() = 0xff; },
        [](CodedLayer* c) { c->key.mask[0] ^= 2; },
        [](CodedLayer* c) { c->key.mask.back() |= INT64_MIN; },
        [](CodedLayer* c) { c->value.prefix[1] += 1; },
        [](CodedLayer* c) { c->value.prefix[0] = -1; },
        [](CodedLayer* c) { c->key.offset[0] = 1; },
        [](CodedLayer* c) { c->key.offset[1] = -5; },
        [](CodedLayer* c) { c->value.offset.back() += 1; },
        [](CodedLayer* c) { c->value.slot[3] ^= 1; },
        [](CodedLayer* c) { c->value.slot.pop_back(); },
        [](CodedLayer* c) { c->key.codes.pop_back(); },
        [](CodedLayer* c) { c->key.scale.clear(); },
        [](CodedLayer* c) { c->key.anchors.push_back(0); },
        [](CodedLayer* c) { c->value.gamma.pop_back(); },
        [](CodedLayer* c) { c->key.bound.push_back(0); },
        [](CodedLayer* c) { c->sketch.gain.push_back(0); },
        [](CodedLayer* c) { c->sketch.basis.push_back(0); },
        [](CodedLayer* c) { c->sketch.codes.push_back(0); },
        [](CodedLayer* c) { c->sketch.bits.empty() ? c->sketch.bits.push_back(0) : void(c->sketch.bits[1] = 9); },
        [](CodedLayer* c) { c->sketch.bits.empty() ? c->sketch.bits.push_back(0) : void(c->sketch.bits.back() = 8); },
        [](CodedLayer* c) { c->sketch.range.empty() ? c->sketch.range.push_back(0) : void(c->sketch.range[1] = -1); },
        [](CodedLayer* c) { c->sketch.range.resize(c->sketch.range.size() + 1, NAN); },
        [](CodedLayer* c) { c->plan.layout.sketch_bytes = 65; },
        [](CodedLayer* c) { c->anchor_positions[2] = 0xff; },
        [](CodedLayer* c) {
          std::swap(c->anchor_positions[0], c->anchor_positions[size_t(c->plan.layout.anchor_position_bytes)]);
        },
        [](CodedLayer* c) { c->anchor_positions.pop_back(); },
        [](CodedLayer* c) { c->position_ids.push_back(0); },
        [](CodedLayer* c) { c->position_ids.empty() ? c->position_ids.push_back(0) : void(c->position_ids[3] = 4); },
        [](CodedLayer* c) { c->key.anchors[5] = 0x7fc0; },    // not a number
        [](CodedLayer* c) { c->value.anchors[0] = 0xff80; },  // -infinity
        [](CodedLayer* c) { std::fill_n(c->key.scale.begin(), c->plan.layout.scale_bytes, uint8_t{0xff}); },
        [](CodedLayer* c) { c->plan.n_key += 1; },
        [](CodedLayer* c) { c->plan.shape.n_anchors = 47; },
        [](CodedLayer* c) { c->plan.shape.d = 1 << 20; },
    };
    for (size_t i = 0; i < std::size(damages); ++i) {
      CodedLayer bad = good;
      damages[i](&bad);
      EXPECT_EQ(check_layer(bad).code(), StatusCode::kDataLoss) << i;
    }
  }
}

TEST(CodedLayer, Refuses) {
  const Layer layer(300, 2, 64, true, 7);
  LayerTokens t = layer.view();
  CodeSettings s = settings(lean_layout(48), 3);
  const auto refused = [&](const char* word) {
    const auto made = code_layer(t, s, *stream());
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument) << word;
    EXPECT_NE(made.status().message().find(word), std::string::npos) << made.status().message();
  };
  s.ratio = 500;
  refused("ratio");
  s = settings(lean_layout(48), 3);
  s.utility = "no";
  refused("utility");
  s = settings(lean_layout(48), 3);
  t.heads = {};
  refused("heads");
  t = layer.view();
  std::vector<HeadTokens> heads = layer.heads;
  heads[1].value.shape[0] -= 1;
  t.heads = heads;
  refused("value");
  heads = layer.heads;
  heads[0].q.shape[1] = 32;
  refused("queries");
  t = layer.view();
  std::vector<int32_t> late = layer.q_positions;
  late.back() = 300;
  t.q_positions = {late.data(), DType::kI32, {layer.m}};
  refused("position");
}

}  // namespace
}  // namespace vestige::anchor
