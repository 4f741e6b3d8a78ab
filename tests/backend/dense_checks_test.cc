// What the dense ops refuse, with a message that names the field.

#include <limits>

#include "tests/backend/dense_runs.h"

namespace vestige::dense_test {
namespace {

class DenseChecks : public testing::Test {
 protected:
  std::unique_ptr<Stream> s_ = stream("cpu");
  Floats a_ = Floats(4096), b_ = Floats(4096), c_ = Floats(4096), d_ = Floats(4096);
  TensorView view(Floats& x, std::initializer_list<int64_t> shape, DType dtype = DType::kF32) {
    return {x.data(), dtype, shape};
  }
};

TEST_F(DenseChecks, Matmul) {
  const MatmulParams good{.x = view(a_, {4, 8}), .w = view(b_, {3, 8}), .out = view(c_, {4, 3})};
  ASSERT_TRUE(ok(ops::matmul(good, *s_)));
  const auto bad = [&](auto change) {
    MatmulParams p = good;
    change(p);
    return ops::matmul(p, *s_);
  };
  EXPECT_TRUE(refused(bad([&](auto& p) { p.x = view(a_, {32}); }), "x is [32]"));
  EXPECT_TRUE(refused(bad([&](auto& p) { p.w = view(b_, {3, 7}); }), "w is [3, 7] F32, want [3, 8]"));
  EXPECT_TRUE(refused(bad([&](auto& p) { p.w.dtype = DType::kI32; }), "w is [3, 8] I32"));
  EXPECT_TRUE(refused(bad([&](auto& p) { p.w.dtype = DType::kF8E4M3; }), "scale"));
  EXPECT_TRUE(refused(bad([&](auto& p) { p.scale = view(d_, {1, 1}); }), "scale"));
  EXPECT_TRUE(refused(bad([&](auto& p) { p.out = view(c_, {3, 4}); }), "out is [3, 4]"));
  EXPECT_TRUE(refused(bad([&](auto& p) { p.out.stride[0] = 2; }), "out"));
  EXPECT_TRUE(refused(bad([&](auto& p) { p.x.stride[1] = 2; }), "x"));
  EXPECT_TRUE(refused(bad([&](auto& p) { p.out.data = nullptr; }), "out has no memory"));
  EXPECT_TRUE(refused(bad([&](auto& p) { p.out = view(a_, {4, 3}); }), "overlap"));
}

// Rows that are no whole blocks would be read past their end.
TEST_F(DenseChecks, BlocksOfCodesAreWhole) {
  const int32_t id = 0;
  for (const DType dtype : kBlockDTypes) {
    const int64_t n = dtype_block(dtype).n;
    const auto matmul = [&](int64_t k, int64_t pitch) {
      TensorView w = view(b_, {3, k}, dtype);
      w.stride[0] = pitch;
      return ops::matmul({.x = view(a_, {4, k}), .w = w, .out = view(c_, {4, 3})}, *s_);
    };
    EXPECT_TRUE(ok(matmul(n, n)));
    EXPECT_TRUE(ok(matmul(n, 2 * n)));
    EXPECT_TRUE(ok(matmul(n, 0)));
    for (const int64_t k : {int64_t{1}, n - 1, n + 1, n + n / 2}) {
      EXPECT_TRUE(refused(matmul(k, k), "w is [3, " + std::to_string(k)));
      EXPECT_TRUE(
          refused(ops::gather_rows(
                      {.table = view(b_, {3, k}, dtype), .ids = {&id, DType::kI32, {1}}, .out = view(c_, {1, k})}, *s_),
                  "table is [3, " + std::to_string(k)));
    }
    EXPECT_TRUE(refused(matmul(n, n + 1), "rows " + std::to_string(n + 1) + " apart"));
    MatmulParams p{
        .x = view(a_, {4, n}), .w = view(b_, {3, n}, dtype), .scale = view(d_, {1, 1}), .out = view(c_, {4, 3})};
    EXPECT_TRUE(refused(ops::matmul(p, *s_), "scale"));
    EXPECT_TRUE(refused(
        ops::head_matmul({.x = view(a_, {1, 1, n}), .w = view(b_, {1, 3, n}, dtype), .out = view(c_, {1, 1, 3})}, *s_),
        "w is"));
  }
}

TEST_F(DenseChecks, MatmulColumnWindowsOfOneBufferAreApart) {
  TensorView x = rows(a_, 4, 8, 16), out = rows(a_, 4, 3, 16);
  out.data = a_.data() + 8;
  EXPECT_TRUE(ok(ops::matmul({.x = x, .w = view(b_, {3, 8}), .out = out}, *s_)));
  out.data = a_.data() + 7;
  EXPECT_TRUE(refused(ops::matmul({.x = x, .w = view(b_, {3, 8}), .out = out}, *s_), "overlap"));
  out.data = a_.data() + 14;  // wraps into the next row of x
  EXPECT_TRUE(refused(ops::matmul({.x = x, .w = view(b_, {3, 8}), .out = out}, *s_), "overlap"));
}

TEST_F(DenseChecks, MatmulList) {
  const MatmulParams one{.x = view(a_, {4, 8}), .w = view(b_, {3, 8}), .out = view(c_, {4, 3})};
  MatmulParams two = one;
  two.out = view(d_, {4, 3});
  const auto list = [&] {
    const MatmulParams products[] = {one, two};
    return ops::matmul_list({products}, *s_);
  };
  ASSERT_TRUE(ok(list()));
  two.out = view(d_, {4, 4});
  EXPECT_TRUE(refused(list(), "products[1]: matmul: out is [4, 4]"));
  two.out = view(c_, {4, 3});
  EXPECT_TRUE(refused(list(), "matmul_list: two outs overlap"));
  two = one;
  two.x = view(d_, {4, 8});
  two.out = view(a_, {4, 3});
  EXPECT_TRUE(refused(list(), "matmul_list: out and another x overlap"));
}

TEST_F(DenseChecks, HeadMatmul) {
  HeadMatmulParams p{.x = view(a_, {2, 3, 8}), .w = view(b_, {3, 5, 8}), .out = view(c_, {2, 3, 5})};
  ASSERT_TRUE(ok(ops::head_matmul(p, *s_)));
  p.transposed = true;
  EXPECT_TRUE(refused(ops::head_matmul(p, *s_), "w is [3, 5, 8] F32, want [3, 8, 5]"));
  p.transposed = false, p.out = view(a_, {2, 3, 5});
  EXPECT_TRUE(refused(ops::head_matmul(p, *s_), "overlap"));
}

TEST_F(DenseChecks, GatherRows) {
  std::vector<int32_t> ids = {0, 4};
  GatherRowsParams p{.table = view(a_, {5, 8}), .ids = {ids.data(), DType::kI32, {2}}, .out = view(b_, {2, 8})};
  ASSERT_TRUE(ok(ops::gather_rows(p, *s_)));
  ids[1] = 5;
  EXPECT_TRUE(refused(ops::gather_rows(p, *s_), "ids[1] = 5, want [0, 5)"));
  ids[1] = -1;
  EXPECT_TRUE(refused(ops::gather_rows(p, *s_), "ids[1] = -1"));
}

TEST_F(DenseChecks, RmsNormAndSiluMul) {
  RmsNormParams p{.x = view(a_, {2, 8}), .weight = view(b_, {8}), .out = view(c_, {2, 8})};
  ASSERT_TRUE(ok(ops::rms_norm(p, *s_)));
  for (float eps : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    p.eps = eps;
    EXPECT_TRUE(refused(ops::rms_norm(p, *s_), "eps"));
  }
  p.eps = 1e-5f, p.gate = view(d_, {1, 8});
  EXPECT_TRUE(refused(ops::rms_norm(p, *s_), "gate"));
  EXPECT_TRUE(refused(ops::silu_mul({view(a_, {2, 8}), view(b_, {2, 7}), view(c_, {2, 8})}, *s_), "up"));
}

TEST_F(DenseChecks, Rotate) {
  std::vector<int32_t> positions = {0, INT32_MAX};
  const RotateParams good{
      .x = view(a_, {2, 3, 4}), .positions = {positions.data(), DType::kI32, {2}}, .frequencies = view(b_, {2})};
  ASSERT_TRUE(ok(ops::rotate(good, *s_)));
  RotateParams p = good;
  p.x = view(a_, {2, 3, 5});
  EXPECT_TRUE(refused(ops::rotate(p, *s_), "d = 5"));
  p = good, p.x.stride[0] = 0;
  EXPECT_TRUE(refused(ops::rotate(p, *s_), "x"));
  p = good, p.frequencies = view(b_, {4});
  EXPECT_TRUE(refused(ops::rotate(p, *s_), "frequencies"));
  for (float scale : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    p = good, p.scale = scale;
    EXPECT_TRUE(refused(ops::rotate(p, *s_), "scale"));
  }
  p = good, p.positions = {positions.data(), DType::kI32, {1}};
  EXPECT_TRUE(refused(ops::rotate(p, *s_), "positions"));
  positions[1] = -1;
  EXPECT_TRUE(refused(ops::rotate(good, *s_), "positions[1] = -1"));
}

TEST_F(DenseChecks, ShortConv) {
  const ShortConvParams good{view(a_, {3, 8}), view(b_, {8, 4}), view(c_, {3, 8}), view(d_, {3, 8})};
  ASSERT_TRUE(ok(ops::short_conv(good, *s_)));
  ShortConvParams p = good;
  p.weight = view(b_, {8, 1});
  EXPECT_TRUE(refused(ops::short_conv(p, *s_), "width"));
  p = good, p.state = view(c_, {4, 8});
  EXPECT_TRUE(refused(ops::short_conv(p, *s_), "state"));
  p = good, p.out = view(a_, {3, 8});
  EXPECT_TRUE(refused(ops::short_conv(p, *s_), "overlap"));
}

TEST_F(DenseChecks, Kda) {
  const KdaGateParams gate{view(a_, {2, 3, 4}), view(b_, {3}), view(c_, {12}), view(a_, {2, 3, 4}), view(d_, {2, 3})};
  ASSERT_TRUE(ok(ops::kda_gate(gate, *s_)));
  KdaGateParams g = gate;
  g.a_log = view(b_, {4});
  EXPECT_TRUE(refused(ops::kda_gate(g, *s_), "a_log"));
  g = gate, g.dt_bias = view(c_, {4});
  EXPECT_TRUE(refused(ops::kda_gate(g, *s_), "dt_bias"));
  KdaParams p = KdaInputs({.t = 2, .h = 3, .d_k = 4, .d_v = 5, .decay = 1}).params(0, 2);
  p.state = view(a_, {3, 5, 4});
  EXPECT_TRUE(refused(ops::kda(p, *s_), "state is [3, 5, 4] F32, want [3, 4, 5]"));
}

TEST_F(DenseChecks, Experts) {
  std::vector<int32_t> ids(8);
  const RouteExpertsParams good{.logits = view(a_, {2, 12}),
                                .bias = {},
                                .ids = {ids.data(), DType::kI32, {2, 4}},
                                .weights = view(b_, {2, 4}),
                                .n_groups = 3,
                                .topk_group = 1};
  ASSERT_TRUE(ok(ops::route_experts(good, *s_)));
  RouteExpertsParams p = good;
  p.n_groups = 5;
  EXPECT_TRUE(refused(ops::route_experts(p, *s_), "n_groups = 5"));
  p = good, p.topk_group = 4;
  EXPECT_TRUE(refused(ops::route_experts(p, *s_), "topk_group = 4"));
  p = good, p.n_groups = 6;
  EXPECT_TRUE(refused(ops::route_experts(p, *s_), "top_k = 4, want [1, 2]"));

  ExpertInputs in({.t = 2, .d = 4, .d_ff = 6, .experts = 2, .top_k = 1, .dtype = DType::kF32});
  in.ids[1] = 2;
  EXPECT_TRUE(refused(ops::expert_mlp(in.params(c_, 0, 2), *s_), "ids[1] = 2"));
  in.ids[1] = 1;
  ASSERT_TRUE(ok(ops::expert_mlp(in.params(c_, 0, 2), *s_)));
  ExpertInputs f8({.t = 2, .d = 4, .d_ff = 6, .experts = 2, .top_k = 1, .dtype = DType::kF8E4M3});
  f8.experts[1].up_scale = {};
  EXPECT_TRUE(refused(ops::expert_mlp(f8.params(c_, 0, 2), *s_), "expert 1: expert_mlp: up_scale"));
  in.experts[0].down_scale = f8.experts[0].down_scale;
  EXPECT_TRUE(refused(ops::expert_mlp(in.params(c_, 0, 2), *s_), "down_scale"));
  in.experts[0].down_scale = {};
  in.experts[1].down = in.experts[1].up;
  EXPECT_TRUE(refused(ops::expert_mlp(in.params(c_, 0, 2), *s_), "expert 1"));
}

}  // namespace
}  // namespace vestige::dense_test
