// Every dense op: cpu against ref over the case tables, ref against values worked by hand, and the promises on bits.

#include "base/block_codes.h"
#include "tests/backend/dense_runs.h"

namespace vestige::dense_test {
namespace {

template <class Cases>
void check_cases(const Cases& cases, double bound) {
  int index = 0;
  for (const auto& c : cases) {
    SCOPED_TRACE("case " + std::to_string(index++));
    check_backends([&](Stream& s) { return run(c, s); }, bound);
  }
}

TEST(DenseOps, Matmul) { check_cases(kMatmulCases, kMatmulBound); }
TEST(DenseOps, MatmulList) { check_cases(kMatmulListCases, kMatmulBound); }
TEST(DenseOps, HeadMatmul) { check_cases(kHeadMatmulCases, kHeadMatmulBound); }
TEST(DenseOps, GatherRows) { check_cases(kGatherRowsCases, kGatherRowsBound); }
TEST(DenseOps, RmsNorm) { check_cases(kRmsNormCases, kRmsNormBound); }
TEST(DenseOps, SiluMul) { check_cases(kSiluMulCases, kSiluMulBound); }
TEST(DenseOps, Rotate) { check_cases(kRotateCases, kRotateBound); }
TEST(DenseOps, ShortConv) { check_cases(kShortConvCases, kShortConvBound); }
TEST(DenseOps, KdaGate) { check_cases(kKdaGateCases, kKdaGateBound); }
TEST(DenseOps, Kda) { check_cases(kKdaCases, kKdaBound); }
TEST(DenseOps, RouteExperts) { check_cases(kRouteExpertsCases, kRouteExpertsBound); }
TEST(DenseOps, ExpertMlp) { check_cases(kExpertMlpCases, kExpertMlpBound); }

// ---- values worked by hand, on both backends

class DenseValues : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Stream> s_ = stream(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Backends, DenseValues, testing::Values("ref", "cpu"),
                         [](const auto& backend) { return std::string(backend.param); });

TEST_P(DenseValues, Matmul) {
  Floats x = {1, 2, 3}, w = {1, 0, -1, 2, 2, 2}, out = {100, 200};
  MatmulParams p{.x = rows(x, 1, 3, 3), .w = rows(w, 2, 3, 3), .out = rows(out, 1, 2, 2)};
  ASSERT_TRUE(ok(ops::matmul(p, *s_)));
  EXPECT_EQ(out, (Floats{-2, 12}));
  p.accumulate = true;
  ASSERT_TRUE(ok(ops::matmul(p, *s_)));
  EXPECT_EQ(out, (Floats{-4, 24}));
}

TEST_P(DenseValues, MatmulF8) {
  // Codes 1.0, -1.5, the smallest subnormal 2^-9 and the largest value 448; scales 2 and 0.5 for the two blocks.
  Floats x(129, 0.0f), scale = {2, 0.5f}, out(1);
  std::vector<uint8_t> w(129, 0);
  w[0] = 0x38, w[1] = 0xbc, w[2] = 0x01, w[128] = 0x7e;
  x[0] = 1, x[1] = 1, x[2] = 512, x[128] = 1;
  ASSERT_TRUE(ok(ops::matmul({.x = rows(x, 1, 129, 129),
                              .w = {w.data(), DType::kF8E4M3, {1, 129}},
                              .scale = rows(scale, 1, 2, 2),
                              .out = rows(out, 1, 1, 1)},
                             *s_)));
  EXPECT_FLOAT_EQ(out[0], 2.0f - 3.0f + 2.0f + 224.0f);
}

TEST_P(DenseValues, HeadMatmul) {
  Floats x = {1, 2, 3, 4}, w = {1, 10, 2, 20, 1, 1, 0, 1}, out(4);  // two heads, w [2, 2, 2]
  HeadMatmulParams p{.x = heads(x, 1, 2, 2, 0), .w = {w.data(), DType::kF32, {2, 2, 2}}, .out = heads(out, 1, 2, 2, 0)};
  ASSERT_TRUE(ok(ops::head_matmul(p, *s_)));
  EXPECT_EQ(out, (Floats{21, 42, 7, 4}));
  p.transposed = true;
  ASSERT_TRUE(ok(ops::head_matmul(p, *s_)));
  EXPECT_EQ(out, (Floats{5, 50, 3, 7}));
}

TEST_P(DenseValues, RmsNormAndGate) {
  Floats x = {3, 4}, weight = {1, 2}, gate = {0, 100}, out(2);
  RmsNormParams p{
      .x = rows(x, 1, 2, 2), .weight = {weight.data(), DType::kF32, {2}}, .out = rows(out, 1, 2, 2), .eps = 1e-12f};
  ASSERT_TRUE(ok(ops::rms_norm(p, *s_)));
  EXPECT_TRUE(close(out, {0.848528137f, 2.26274170f}, 1e-6));
  p.gate = rows(gate, 1, 2, 2);
  ASSERT_TRUE(ok(ops::rms_norm(p, *s_)));
  EXPECT_TRUE(close(out, {0.424264069f, 2.26274170f}, 1e-6));
}

TEST_P(DenseValues, SiluMul) {
  Floats gate = {1, -1, 0}, up = {2, 1, 5}, out(3);
  ASSERT_TRUE(ok(ops::silu_mul({rows(gate, 1, 3, 3), rows(up, 1, 3, 3), rows(out, 1, 3, 3)}, *s_)));
  EXPECT_TRUE(close(out, {1.46211716f, -0.268941421f, 0}, 1e-6));
}

TEST_P(DenseValues, Rotate) {
  // Position 3: the first pair turns by 3 * pi / 6, a quarter turn; the second by 3 * pi / 3, half a turn. Doubled.
  const Floats start = {1, 2, 3, 4};
  Floats x = start, frequencies = {0.52359878f, 1.04719755f};
  const int32_t position = 3;
  RotateParams p{.x = heads(x, 1, 1, 4, 0),
                 .positions = {&position, DType::kI32, {1}},
                 .frequencies = {frequencies.data(), DType::kF32, {2}},
                 .scale = 2};
  ASSERT_TRUE(ok(ops::rotate(p, *s_)));
  EXPECT_TRUE(close(x, {-4, 2, -6, -8}, 1e-6));
  x = start, p.interleaved = false;  // pairs (1, 3) and (2, 4)
  ASSERT_TRUE(ok(ops::rotate(p, *s_)));
  EXPECT_TRUE(close(x, {-6, -4, 2, -8}, 1e-6));
}

TEST_P(DenseValues, ShortConvOrderOfTapsAndState) {
  Floats x = {1, 2}, weight = {0.5f, 1, 10}, state = {4, 5}, out(2);  // the last tap multiplies the current token
  ASSERT_TRUE(ok(ops::short_conv(
      {rows(x, 2, 1, 1), {weight.data(), DType::kF32, {1, 3}}, rows(state, 2, 1, 1), rows(out, 2, 1, 1)}, *s_)));
  EXPECT_TRUE(close(out, {2 + 5 + 10.0f, 2.5f + 1 + 20.0f}, 1e-6));  // silu(x) = x to 5e-7 here
  EXPECT_EQ(state, (Floats{1, 2}));
}

TEST_P(DenseValues, KdaGate) {
  Floats x = {0, 100, -100}, a_log = {0.693147181f}, dt_bias = {0, 0, 0}, decay(3), beta = {0};
  ASSERT_TRUE(ok(ops::kda_gate({heads(x, 1, 1, 3, 0),
                                {a_log.data(), DType::kF32, {1}},
                                {dt_bias.data(), DType::kF32, {3}},
                                heads(decay, 1, 1, 3, 0),
                                rows(beta, 1, 1, 1)},
                               *s_)));
  EXPECT_TRUE(close(decay, {-1.38629436f, -200, 0}, 1e-6));
  EXPECT_NEAR(decay[2], -2 * 3.7200760e-44, 3e-45);
  EXPECT_FLOAT_EQ(beta[0], 0.5f);
}

TEST_P(DenseValues, KdaStep) {
  // State (1, 2) decays to (0.5, 0.5); k = e1: u = 0.5 (3 - 0.5) = 1.25; state (1.75, 0.5); q = (3, 4) / 5.
  Floats q = {3, 4}, k = {7, 0}, v = {3}, decay = {std::log(0.5f), std::log(0.25f)}, beta = {0.5f}, state = {1, 2};
  Floats out(1);
  ASSERT_TRUE(ok(ops::kda({.q = heads(q, 1, 1, 2, 0),
                           .k = heads(k, 1, 1, 2, 0),
                           .v = heads(v, 1, 1, 1, 0),
                           .decay = heads(decay, 1, 1, 2, 0),
                           .beta = rows(beta, 1, 1, 1),
                           .state = {state.data(), DType::kF32, {1, 2, 1}},
                           .out = heads(out, 1, 1, 1, 0),
                           .scale = 10},
                          *s_)));
  EXPECT_TRUE(close(state, {1.75f, 0.5f}, 1e-6));
  EXPECT_TRUE(close(out, {10 * (0.6f * 1.75f + 0.8f * 0.5f)}, 1e-6));
}

TEST_P(DenseValues, RouteExperts) {
  // Sigmoids 0.5, 0.7310586, 0.8807971, 0.2689414; the bias moves the choice to 3 and 0 but not their weights.
  Floats logits = {0, 1, 2, -1}, bias = {0.5f, 0, -0.5f, 1}, weights(2);
  std::vector<int32_t> ids(2);
  RouteExpertsParams p{.logits = rows(logits, 1, 4, 4),
                       .bias = {bias.data(), DType::kF32, {4}},
                       .ids = {ids.data(), DType::kI32, {1, 2}},
                       .weights = rows(weights, 1, 2, 2),
                       .scale = 2};
  ASSERT_TRUE(ok(ops::route_experts(p, *s_)));
  EXPECT_EQ(ids, (std::vector<int32_t>{3, 0}));
  EXPECT_TRUE(close(weights, {2 * 0.2689414f / 0.7689414f, 2 * 0.5f / 0.7689414f}, 1e-6));
  // Groups {0, 1} and {2, 3} by their two best: 1.231 and 1.150, so 2, the best of all, is out.
  p.bias = {}, p.n_groups = 2;
  ASSERT_TRUE(ok(ops::route_experts(p, *s_)));
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 0}));
  // Scores below 0 in the kept group still come before the dropped group: it counts as -inf, not as 0.
  Floats below = {-1, -1.5f, -2, -2};
  p.bias = {below.data(), DType::kF32, {4}};
  ASSERT_TRUE(ok(ops::route_experts(p, *s_)));
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 1}));
  EXPECT_TRUE(close(weights, {2 * 0.5f / 1.2310586f, 2 * 0.7310586f / 1.2310586f}, 1e-6));
  p.bias = {};
  logits = {1, 1, 1, 1};  // ties, of groups and of experts
  ASSERT_TRUE(ok(ops::route_experts(p, *s_)));
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 1}));
}

TEST_P(DenseValues, ExpertMlp) {
  Floats x = {1}, one = {1}, two = {2}, three = {3}, weights = {0.5f, 2}, out = {10};
  std::vector<int32_t> ids = {1, 0};
  const auto w = [](Floats& v) { return ConstTensorView(v.data(), DType::kF32, {1, 1}); };
  const ExpertWeights experts[] = {{w(one), w(two), w(three)}, {w(one), w(one), w(one)}};
  ASSERT_TRUE(ok(ops::expert_mlp(
      {rows(x, 1, 1, 1), {ids.data(), DType::kI32, {1, 2}}, rows(weights, 1, 2, 2), experts, rows(out, 1, 1, 1)},
      *s_)));
  EXPECT_TRUE(close(out, {10 + 0.5f * 0.731058579f + 2 * 3 * 2 * 0.731058579f}, 1e-6));
}

// Experts stored in 8 bits give what the same experts, widened by hand, give.
TEST_P(DenseValues, ExpertMlpF8EqualsWidened) {
  for (int64_t t : {1, 40}) {
    ExpertInputs in({.t = t, .d = 130, .d_ff = 257, .experts = 3, .top_k = 2, .dtype = DType::kF8E4M3});
    Floats from_f8(static_cast<size_t>(t * 130), 0.5f), from_f32 = from_f8;
    ASSERT_TRUE(ok(ops::expert_mlp(in.params(from_f8, 0, t), *s_)));
    std::vector<Floats> wide;
    wide.reserve(9);
    const auto widen = [&](ConstTensorView& w, ConstTensorView& scale) {
      Floats& out = wide.emplace_back();
      for (int64_t i = 0; i < w.dim(0) * w.dim(1); ++i) {
        const int64_t block = i / w.dim(1) / 128 * scale.dim(1) + i % w.dim(1) / 128;
        out.push_back(f8e4m3_to_f32(w.as<uint8_t>()[i]) * scale.as<float>()[block]);
      }
      w.data = out.data(), w.dtype = DType::kF32, scale = {};
    };
    for (ExpertWeights& e : in.experts) {
      widen(e.gate, e.gate_scale);
      widen(e.up, e.up_scale);
      widen(e.down, e.down_scale);
    }
    ASSERT_TRUE(ok(ops::expert_mlp(in.params(from_f32, 0, t), *s_)));
    EXPECT_TRUE(close(from_f8, from_f32, 1e-6)) << t;
  }
}

// ---- promises on bits

// Rows [begin, begin + m) of one larger x, as a product of their own.
Floats product_of_rows(Floats& x, const std::vector<std::byte>& w, int64_t n, int64_t k, DType dtype, int64_t begin,
                       int64_t m) {
  Floats out(static_cast<size_t>(m * n));
  const int64_t total = static_cast<int64_t>(x.size()) / k;
  EXPECT_TRUE(ok(ops::matmul(
      {.x = rows(x, total, k, k).slice(begin, m), .w = {w.data(), dtype, {n, k}}, .out = rows(out, m, n, n)},
      *stream("cpu", 2))));
  return out;
}

TEST(DenseBits, MatmulRowDependsOnItsOwnRowOnly) {
  constexpr int64_t kTotal = 210;
  for (const auto& [n, k, dtype] : {std::tuple<int64_t, int64_t, DType>{320, 320, DType::kBF16},
                                    {129, 1024, DType::kF32},
                                    {5, 33, DType::kF16},
                                    {257, 2304, DType::kBF16},
                                    {128, 64, DType::kBF16},
                                    {1, 640, DType::kF32}}) {
    SCOPED_TRACE(std::to_string(n) + " x " + std::to_string(k));
    Floats x = numbers(kTotal * k, 1);
    const auto w = stored(numbers(n * k, 2), dtype);
    const auto expect_rows = [&](const Floats& whole, int64_t begin, int64_t m) {
      SCOPED_TRACE("rows " + std::to_string(begin) + " + " + std::to_string(m));
      const Floats want(whole.begin() + begin * n, whole.begin() + (begin + m) * n);
      EXPECT_TRUE(same_bits(product_of_rows(x, w, n, k, dtype, begin, m), want));
    };
    const Floats many = product_of_rows(x, w, n, k, dtype, 0, kTotal);
    for (const auto& [begin, m] :
         {std::pair<int64_t, int64_t>{0, 9}, {1, 64}, {3, 65}, {100, 10}, {7, 200}, {77, 129}}) {
      expect_rows(many, begin, m);
    }
    const Floats few = product_of_rows(x, w, n, k, dtype, 0, 8);
    for (int64_t m = 1; m < 8; ++m) expect_rows(few, 8 - m, m);
  }
}

// On every instruction set, few rows and many.
TEST(DenseBits, MatmulOfBlocksIsThatOfTheNumbersTheyStandFor) {
  constexpr int64_t kN = 67, kK = 768;
  Floats x = numbers(50 * kK, 1);
  for (const DType dtype : kBlockDTypes) {
    SCOPED_TRACE(dtype_name(dtype));
    const auto blocks = random_blocks(dtype, kN * kK, 7);
    Floats wide(static_cast<size_t>(kN * kK));
    decode_blocks(dtype, blocks.data(), kN * kK, wide.data());
    for (const int64_t m : {1, 3, 8, 9, 50}) {
      const auto product = [&](const ConstTensorView& w) {
        Floats out(static_cast<size_t>(m * kN));
        EXPECT_TRUE(ok(ops::matmul({.x = rows(x, m, kK, kK), .w = w, .out = rows(out, m, kN, kN)}, *stream("cpu"))));
        return out;
      };
      for_each_target([&] {
        EXPECT_TRUE(same_bits(product({blocks.data(), dtype, {kN, kK}}), product(rows(wide, kN, kK, kK)))) << m;
      });
    }
  }
}

// A view may skip blocks between rows, and rows.
TEST(DenseBits, MatmulOfBlocksTakesStridesOfWholeBlocks) {
  constexpr int64_t kN = 10, kK = 64;
  Floats x = numbers(kK, 1), all(kN), part(4);
  const auto blocks = random_blocks(DType::kQ4_1, kN * 2 * kK, 7);
  ConstTensorView w(blocks.data(), DType::kQ4_1, {kN, kK});
  w.stride[0] = 2 * kK;
  for (const char* backend : {"ref", "cpu"}) {
    const auto s = stream(backend);
    ASSERT_TRUE(ok(ops::matmul({.x = rows(x, 1, kK, kK), .w = w, .out = rows(all, 1, kN, kN)}, *s)));
    ASSERT_TRUE(ok(ops::matmul({.x = rows(x, 1, kK, kK), .w = w.slice(3, 4), .out = rows(part, 1, 4, 4)}, *s)));
    EXPECT_TRUE(same_bits(part, Floats(all.begin() + 3, all.begin() + 7)));
    Floats third(2 * kK);
    decode_blocks(DType::kQ4_1, blocks.data() + stored_bytes(DType::kQ4_1, 3 * 2 * kK), kK, third.data());
    double sum = 0;
    for (size_t c = 0; c < kK; ++c) sum += static_cast<double>(x[c]) * static_cast<double>(third[c]);
    EXPECT_NEAR(part[0], sum, 1e-5);
  }
}

TEST(DenseBits, MatmulListIsLikeMatmulOneByOne) {
  for (const auto& list : kMatmulListCases) {
    for (int32_t n_threads : {1, 3}) {
      EXPECT_TRUE(same_bits(run(list, *stream("cpu", n_threads)), run(list, *stream("cpu", n_threads), true)));
    }
  }
}

TEST(DenseBits, MatmulAccumulateIsTheSameForPaddedRows) {
  constexpr int64_t kN = 70, kK = 900;
  Floats x = numbers(100 * kK, 1);
  const auto w = stored(numbers(kN * kK, 2), DType::kBF16);
  const auto product = [&](int64_t begin, int64_t m) {
    Floats out = numbers(100 * kN, 3);
    EXPECT_TRUE(ok(ops::matmul({.x = rows(x, 100, kK, kK).slice(begin, m),
                                .w = {w.data(), DType::kBF16, {kN, kK}},
                                .out = rows(out, 100, kN, kN).slice(begin, m),
                                .accumulate = true},
                               *stream("cpu"))));
    return Floats(out.begin() + 60 * kN, out.begin() + 70 * kN);
  };
  EXPECT_TRUE(same_bits(product(0, 100), product(60, 10)));
  EXPECT_TRUE(same_bits(product(0, 70), product(37, 63)));
}

TEST(DenseBits, HeadMatmulRowDependsOnItsOwnRowOnly) {
  for (bool transposed : {false, true}) {
    Floats x = numbers(20 * 2 * 65, 1), all(20 * 2 * 33), part(7 * 2 * 33);
    const auto w = stored(numbers(2 * 33 * 65, 2), DType::kBF16);
    const ConstTensorView w_view(w.data(), DType::kBF16, {2, transposed ? 65 : 33, transposed ? 33 : 65});
    HeadMatmulParams p{
        .x = heads(x, 20, 2, 65, 0), .w = w_view, .out = heads(all, 20, 2, 33, 0), .transposed = transposed};
    ASSERT_TRUE(ok(ops::head_matmul(p, *stream("cpu"))));
    p.x = p.x.slice(3, 7), p.out = heads(part, 7, 2, 33, 0);
    ASSERT_TRUE(ok(ops::head_matmul(p, *stream("cpu"))));
    EXPECT_TRUE(same_bits(part, Floats(all.begin() + 3 * 66, all.begin() + 10 * 66)));
  }
}

TEST(DenseBits, KdaCallsMayBeCutAnywhere) {
  const KdaCase c{.t = 200, .h = 3, .d_k = 64, .d_v = 64, .decay = 0.05f};
  KdaInputs whole(c), cut(c);
  const auto s = stream("cpu", 2);
  ASSERT_TRUE(ok(ops::kda(whole.params(0, c.t), *s)));
  int64_t begin = 0;
  for (int64_t n : {64, 1, 1, 63, 2, 69}) {
    ASSERT_TRUE(ok(ops::kda(cut.params(begin, n), *s)));
    begin += n;
  }
  ASSERT_EQ(begin, c.t);
  EXPECT_TRUE(same_bits(cut.out, whole.out));
  EXPECT_TRUE(same_bits(cut.state, whole.state));
}

TEST(DenseBits, ExpertMlpRowDependsOnItsOwnRowOnly) {
  ExpertInputs in({.t = 100, .d = 64, .d_ff = 48, .experts = 5, .top_k = 2, .dtype = DType::kBF16});
  const auto s = stream("cpu", 2);
  Floats all(100 * 64, 0.5f), part = all;
  ASSERT_TRUE(ok(ops::expert_mlp(in.params(all, 0, 100), *s)));
  for (const auto& [begin, n] : {std::pair<int64_t, int64_t>{0, 9}, {9, 80}, {89, 11}}) {
    ASSERT_TRUE(ok(ops::expert_mlp(in.params(part, begin, n), *s)));
  }
  EXPECT_TRUE(same_bits(part, all));
}

TEST(DenseBits, ExpertMlpBlocksOfTokensAreLikeOneCall) {
  // 1800 choices of a 4 x 1 expert: past the 16 M floats of grouped rows that one block of tokens may take.
  ExpertInputs in({.t = 2000, .d = 4, .d_ff = 1, .experts = 5, .top_k = 1800, .dtype = DType::kF32});
  const auto s = stream("cpu", 2);
  Floats all(2000 * 4, 0.5f), part = all;
  ASSERT_TRUE(ok(ops::expert_mlp(in.params(all, 0, 2000), *s)));
  ASSERT_TRUE(ok(ops::expert_mlp(in.params(part, 0, 1000), *s)));
  ASSERT_TRUE(ok(ops::expert_mlp(in.params(part, 1000, 1000), *s)));
  EXPECT_TRUE(same_bits(part, all));
}

TEST(DenseOps, KdaSurvivesStrongDecay) {
  const KdaCase c{.t = 130, .h = 1, .d_k = 64, .d_v = 64, .decay = 1000.0f};
  for (float v : run(c, *stream("cpu"))) ASSERT_TRUE(std::isfinite(v));
}

}  // namespace
}  // namespace vestige::dense_test
