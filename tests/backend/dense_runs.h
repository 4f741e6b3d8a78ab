#pragma once

// One runner an op and case: builds the inputs, runs the op on a stream, hands back every output as floats. Gaps
// between padded rows are part of the output, so that a write outside the view shows.

#include "tests/backend/dense_fixture.h"
#include "tests/backend/expert_mlp_cases.h"
#include "tests/backend/gather_rows_cases.h"
#include "tests/backend/head_matmul_cases.h"
#include "tests/backend/kda_cases.h"
#include "tests/backend/kda_gate_cases.h"
#include "tests/backend/matmul_cases.h"
#include "tests/backend/rms_norm_cases.h"
#include "tests/backend/rotate_cases.h"
#include "tests/backend/route_experts_cases.h"
#include "tests/backend/short_conv_cases.h"
#include "tests/backend/silu_mul_cases.h"

namespace vestige::dense_test {

inline Floats scales_for(int64_t n, int64_t k) {
  return numbers((n + 127) / 128 * ((k + 127) / 128), 77, 0.01f, 0.02f);
}

inline ConstTensorView scale_view(Floats& scale, DType dtype, int64_t n, int64_t k) {
  if (dtype != DType::kF8E4M3) return {};
  return TensorView(scale.data(), DType::kF32, {(n + 127) / 128, (k + 127) / 128});
}

/// One product with memory of its own.
struct MatmulInputs {
  explicit MatmulInputs(const MatmulCase& shape, uint64_t seed = 1)
      : c(shape),
        x(numbers(c.m * (c.k + c.pad), seed)),
        out(numbers(c.m * (c.n + c.pad), seed + 1)),
        scale(scales_for(c.n, c.k)),
        w(stored(numbers(c.n * c.k, seed + 2), c.dtype)) {}
  MatmulParams params() {
    return {.x = rows(x, c.m, c.k, c.k + c.pad),
            .w = {w.data(), c.dtype, {c.n, c.k}},
            .scale = scale_view(scale, c.dtype, c.n, c.k),
            .out = rows(out, c.m, c.n, c.n + c.pad),
            .accumulate = c.accumulate};
  }
  MatmulCase c;
  Floats x, out, scale;
  std::vector<std::byte> w;
};

inline Floats run(const MatmulCase& c, Stream& s) {
  MatmulInputs in(c);
  EXPECT_TRUE(ok(ops::matmul(in.params(), s)));
  return in.out;
}

/// All outs one after another; with `apart`, by calls of matmul instead.
inline Floats run(const std::vector<MatmulCase>& list, Stream& s, bool apart = false) {
  std::vector<MatmulInputs> inputs;
  inputs.reserve(list.size());
  for (const MatmulCase& c : list) inputs.emplace_back(c, 10 * inputs.size());
  std::vector<MatmulParams> products;
  for (MatmulInputs& in : inputs) products.push_back(in.params());
  if (apart) {
    for (const MatmulParams& p : products) EXPECT_TRUE(ok(ops::matmul(p, s)));
  } else {
    EXPECT_TRUE(ok(ops::matmul_list({products}, s)));
  }
  Floats all;
  for (const MatmulInputs& in : inputs) all.insert(all.end(), in.out.begin(), in.out.end());
  return all;
}

inline TensorView heads(Floats& x, int64_t t, int64_t h, int64_t d, int64_t pad) {
  TensorView view(x.data(), DType::kF32, {t, h, d});
  view.stride = {h * (d + pad), d + pad, 1};
  return view;
}

inline Floats run(const HeadMatmulCase& c, Stream& s) {
  Floats x = numbers(c.t * c.h * (c.k + c.pad), 1), out = numbers(c.t * c.h * (c.n + c.pad), 2);
  const auto w = stored(numbers(c.h * (c.n * c.k + c.pad), 3), c.dtype);
  ConstTensorView w_view(w.data(), c.dtype, {c.h, c.transposed ? c.k : c.n, c.transposed ? c.n : c.k});
  w_view.stride[0] = c.n * c.k + c.pad;
  EXPECT_TRUE(ok(ops::head_matmul({.x = heads(x, c.t, c.h, c.k, c.pad),
                                   .w = w_view,
                                   .out = heads(out, c.t, c.h, c.n, c.pad),
                                   .transposed = c.transposed},
                                  s)));
  return out;
}

inline Floats run(const GatherRowsCase& c, Stream& s) {
  Floats out(static_cast<size_t>(c.t * c.d)), scale = scales_for(c.v, c.d);
  const auto table = stored(numbers(c.v * c.d, 3), c.dtype);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < c.t; ++i) ids.push_back(static_cast<int32_t>((c.v - 1 + i * 7) % c.v));
  EXPECT_TRUE(ok(ops::gather_rows({.table = {table.data(), c.dtype, {c.v, c.d}},
                                   .scale = scale_view(scale, c.dtype, c.v, c.d),
                                   .ids = {ids.data(), DType::kI32, {c.t}},
                                   .out = {out.data(), DType::kF32, {c.t, c.d}}},
                                  s)));
  return out;
}

inline Floats run(const RmsNormCase& c, Stream& s) {
  Floats x = numbers(c.t * (c.d + c.pad), 1, 3), out(x.size(), 9.0f), gate = numbers(c.t * c.d, 4, 6);
  const auto weight = stored(numbers(c.d, 3), c.weight);
  const TensorView in = rows(x, c.t, c.d, c.d + c.pad);
  EXPECT_TRUE(ok(ops::rms_norm({.x = in,
                                .weight = {weight.data(), c.weight, {c.d}},
                                .gate = c.gate ? ConstTensorView(rows(gate, c.t, c.d, c.d)) : ConstTensorView(),
                                .out = c.in_place ? in : rows(out, c.t, c.d, c.d + c.pad)},
                               s)));
  return c.in_place ? x : out;
}

inline Floats run(const SiluMulCase& c, Stream& s) {
  Floats gate = numbers(c.t * (c.n + c.pad), 1, c.scale), up = numbers(c.t * c.n, 2), out(gate.size(), 9.0f);
  const TensorView in = rows(gate, c.t, c.n, c.n + c.pad);
  EXPECT_TRUE(ok(ops::silu_mul(
      {.gate = in, .up = rows(up, c.t, c.n, c.n), .out = c.in_place ? in : rows(out, c.t, c.n, c.n + c.pad)}, s)));
  return c.in_place ? gate : out;
}

inline Floats run(const RotateCase& c, Stream& s) {
  Floats x = numbers(c.t * c.h * (c.d + c.pad), 1), frequencies = numbers(c.d / 2, 2, 0.5f, 0.5f);
  std::vector<int32_t> positions;
  for (int64_t i = 0; i < c.t; ++i) positions.push_back(c.first + static_cast<int32_t>(3 * i));
  EXPECT_TRUE(ok(ops::rotate({.x = heads(x, c.t, c.h, c.d, c.pad),
                              .positions = {positions.data(), DType::kI32, {c.t}},
                              .frequencies = {frequencies.data(), DType::kF32, {c.d / 2}},
                              .scale = c.scale,
                              .interleaved = c.interleaved},
                             s)));
  return x;
}

inline Floats run(const ShortConvCase& c, Stream& s) {
  Floats x = numbers(c.t * (c.n + c.pad), 1), state = numbers((c.width - 1) * c.n, 2), out(x.size(), 9.0f);
  const auto weight = stored(numbers(c.n * c.width, 3), c.weight);
  EXPECT_TRUE(ok(ops::short_conv({.x = rows(x, c.t, c.n, c.n + c.pad),
                                  .weight = {weight.data(), c.weight, {c.n, c.width}},
                                  .state = rows(state, c.width - 1, c.n, c.n),
                                  .out = rows(out, c.t, c.n, c.n + c.pad)},
                                 s)));
  out.insert(out.end(), state.begin(), state.end());
  return out;
}

inline Floats run(const KdaGateCase& c, Stream& s) {
  Floats x = numbers(c.t * c.h * c.d_k, 1, c.scale), decay(x.size(), 9.0f), beta = numbers(c.t * c.h, 2, 5);
  const auto a_log = stored(numbers(c.h, 3), c.dtype), dt_bias = stored(numbers(c.h * c.d_k, 4), c.dtype);
  EXPECT_TRUE(ok(ops::kda_gate({.x = heads(x, c.t, c.h, c.d_k, 0),
                                .a_log = {a_log.data(), c.dtype, {1, 1, c.h, 1}},
                                .dt_bias = {dt_bias.data(), c.dtype, {c.h * c.d_k}},
                                .decay = heads(c.in_place ? x : decay, c.t, c.h, c.d_k, 0),
                                .beta = rows(beta, c.t, c.h, c.h)},
                               s)));
  Floats& out = c.in_place ? x : decay;
  out.insert(out.end(), beta.begin(), beta.end());
  return out;
}

/// Inputs of one kda call, kept so that it can be cut into several.
struct KdaInputs {
  KdaCase c;
  Floats q, k, v, decay, beta, state, out;

  explicit KdaInputs(const KdaCase& in)
      : c(in),
        q(numbers(c.t * c.h * (c.d_k + c.pad), 1)),
        k(numbers(c.t * c.h * (c.d_k + c.pad), 2)),
        v(numbers(c.t * c.h * (c.d_v + c.pad), 3)),
        decay(numbers(c.t * c.h * (c.d_k + c.pad), 4, c.decay, -c.decay)),
        beta(numbers(c.t * c.h, 5, 0.49f, 0.5f)),
        state(numbers(c.h * c.d_k * c.d_v, 6)),
        out(v.size(), 9.0f) {}

  KdaParams params(int64_t begin, int64_t n) {
    return {.q = heads(q, c.t, c.h, c.d_k, c.pad).slice(begin, n),
            .k = heads(k, c.t, c.h, c.d_k, c.pad).slice(begin, n),
            .v = heads(v, c.t, c.h, c.d_v, c.pad).slice(begin, n),
            .decay = heads(decay, c.t, c.h, c.d_k, c.pad).slice(begin, n),
            .beta = rows(beta, c.t, c.h, c.h).slice(begin, n),
            .state = {state.data(), DType::kF32, {c.h, c.d_k, c.d_v}},
            .out = heads(out, c.t, c.h, c.d_v, c.pad).slice(begin, n),
            .scale = 1.0f / std::sqrt(static_cast<float>(c.d_k))};
  }
};

inline Floats run(const KdaCase& c, Stream& s) {
  KdaInputs in(c);
  EXPECT_TRUE(ok(ops::kda(in.params(0, c.t), s)));
  in.out.insert(in.out.end(), in.state.begin(), in.state.end());
  return in.out;
}

inline Floats run(const RouteExpertsCase& c, Stream& s) {
  Floats logits = numbers(c.t * c.e, 1, 3), bias = numbers(c.e, 2, 0.3f), weights(static_cast<size_t>(c.t * c.top_k));
  std::vector<int32_t> ids(weights.size());
  EXPECT_TRUE(
      ok(ops::route_experts({.logits = rows(logits, c.t, c.e, c.e),
                             .bias = c.bias ? ConstTensorView(bias.data(), DType::kF32, {c.e}) : ConstTensorView(),
                             .ids = {ids.data(), DType::kI32, {c.t, c.top_k}},
                             .weights = rows(weights, c.t, c.top_k, c.top_k),
                             .n_groups = c.n_groups,
                             .topk_group = c.topk_group,
                             .renormalize = c.renormalize,
                             .scale = 2.446f,
                             .activation = c.activation},
                            s)));
  for (int32_t id : ids) weights.push_back(static_cast<float>(id) * 1000.0f);  // a wrong id is past any bound
  return weights;
}

/// Experts and routing of one expert_mlp call.
struct ExpertInputs {
  ExpertMlpCase c;
  Floats x, weights;
  std::vector<int32_t> ids;
  std::vector<std::vector<std::byte>> store;
  Floats scale;  // one table for all weights of an expert: as many blocks either way up
  std::vector<ExpertWeights> experts;

  explicit ExpertInputs(const ExpertMlpCase& in)
      : c(in),
        x(numbers(c.t * (c.d + c.pad), 1)),
        weights(numbers(c.t * c.top_k, 2, 0.5f, 0.6f)),
        scale(scales_for(c.d, c.d_ff)) {
    for (int64_t i = 0; i < c.t * c.top_k; ++i) {
      ids.push_back(static_cast<int32_t>((i * i + i / c.top_k) % c.experts));  // uneven: some experts get none
    }
    for (int64_t e = 0; e < c.experts; ++e) {
      for (uint64_t part = 0; part < 3; ++part) {
        store.push_back(stored(numbers(c.d * c.d_ff, 10 + part + 3 * static_cast<uint64_t>(e), 0.2f), c.dtype));
      }
    }
    for (size_t e = 0; e < static_cast<size_t>(c.experts); ++e) {
      experts.push_back({.gate = {store[3 * e].data(), c.dtype, {c.d_ff, c.d}},
                         .up = {store[3 * e + 1].data(), c.dtype, {c.d_ff, c.d}},
                         .down = {store[3 * e + 2].data(), c.dtype, {c.d, c.d_ff}},
                         .gate_scale = scale_view(scale, c.dtype, c.d_ff, c.d),
                         .up_scale = scale_view(scale, c.dtype, c.d_ff, c.d),
                         .down_scale = scale_view(scale, c.dtype, c.d, c.d_ff)});
    }
  }

  ExpertMlpParams params(Floats& out, int64_t begin, int64_t n) {
    return {.x = rows(x, c.t, c.d, c.d + c.pad).slice(begin, n),
            .ids = TensorView(ids.data(), DType::kI32, {c.t, c.top_k}).slice(begin, n),
            .weights = rows(weights, c.t, c.top_k, c.top_k).slice(begin, n),
            .experts = experts,
            .out = rows(out, c.t, c.d, c.d + c.pad).slice(begin, n)};
  }
};

inline Floats run(const ExpertMlpCase& c, Stream& s) {
  ExpertInputs in(c);
  Floats out = numbers(c.t * (c.d + c.pad), 3);
  EXPECT_TRUE(ok(ops::expert_mlp(in.params(out, 0, c.t), s)));
  return out;
}

}  // namespace vestige::dense_test
