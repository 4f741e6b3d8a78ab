#include "model/layers/kda_layer.h"

#include <cmath>

namespace vestige {

Result<KdaLayer> KdaLayer::load(const std::string& prefix, const KdaDims& dims, Weights& weights) {
  KdaLayer out;
  out.dims_ = dims;
  const int64_t d_all = dims.n_heads * dims.d_head;
  static constexpr const char* kNames[3] = {"q_proj.weight", "k_proj.weight", "v_proj.weight"};
  for (size_t i = 0; i < 3; ++i) {
    VESTIGE_ASSIGN(out.qkv_[i], weights.get(prefix + kNames[i], {d_all, dims.d_model}));
  }
  VESTIGE_ASSIGN(out.conv_, weights.get_stacked(
                                {prefix + "q_conv1d.weight", prefix + "k_conv1d.weight", prefix + "v_conv1d.weight"},
                                {d_all, dims.n_taps}));
  VESTIGE_ASSIGN(out.f_a_, weights.get(prefix + "f_a_proj.weight", {dims.d_head, dims.d_model}));
  VESTIGE_ASSIGN(out.f_b_, weights.get(prefix + "f_b_proj.weight", {d_all, dims.d_head}));
  VESTIGE_ASSIGN(out.b_, weights.get(prefix + "b_proj.weight", {dims.n_heads, dims.d_model}));
  VESTIGE_ASSIGN(out.g_a_, weights.get(prefix + "g_a_proj.weight", {dims.d_head, dims.d_model}));
  VESTIGE_ASSIGN(out.g_b_, weights.get(prefix + "g_b_proj.weight", {d_all, dims.d_head}));
  VESTIGE_ASSIGN(out.o_, weights.get(prefix + "o_proj.weight", {dims.d_model, d_all}));
  VESTIGE_ASSIGN(out.o_norm_, weights.get_wide(prefix + "o_norm.weight", {dims.d_head}));
  // Read in float32 although transformers rounds A_log to the model's dtype: exp of it is the decay rate.
  VESTIGE_ASSIGN(out.a_log_, weights.get_f32(prefix + "A_log", {dims.n_heads}));
  VESTIGE_ASSIGN(out.dt_bias_, weights.get_f32(prefix + "dt_bias", {d_all}));
  return out;
}

TensorView KdaLayer::heads_of(const TensorView& qkv, int64_t part) const {
  const int64_t d_all = dims_.n_heads * dims_.d_head;
  TensorView out = reshaped(columns(qkv, part * d_all, d_all), {qkv.dim(0), dims_.n_heads, dims_.d_head});
  out.stride[0] = qkv.stride[0];
  return out;
}

Status KdaLayer::delta_rule(const KdaParams& p, bool decode, Stream& stream) const {
  if (!decode) return ops::kda(p, stream);
  for (int64_t i = 0; i < p.q.dim(0); ++i) {
    KdaParams one = p;
    one.q = p.q.slice(i, 1);
    one.k = p.k.slice(i, 1);
    one.v = p.v.slice(i, 1);
    one.decay = p.decay.slice(i, 1);
    one.beta = p.beta.slice(i, 1);
    one.out = p.out.slice(i, 1);
    VESTIGE_TRY(ops::kda(one, stream));
  }
  return {};
}

Status KdaLayer::forward(const ConstTensorView& x_norm, const TensorView& x, const KdaState& state, bool decode,
                         const LayerRun& run) const {
  const Scratch::Frame frame(run.scratch);
  Scratch& scratch = run.scratch;
  Stream& stream = run.stream;
  const int64_t t = x.dim(0), h = dims_.n_heads, d = dims_.d_head, d_all = h * d;

  VESTIGE_ASSIGN(const TensorView raw, scratch.take({t, 3 * d_all}));
  VESTIGE_ASSIGN(const TensorView mixed, scratch.take({t, 3 * d_all}));
  VESTIGE_ASSIGN(const TensorView narrow_decay, scratch.take({t, d}));
  VESTIGE_ASSIGN(const TensorView narrow_gate, scratch.take({t, d}));
  VESTIGE_ASSIGN(const TensorView decay, scratch.take({t, h, d}));
  VESTIGE_ASSIGN(const TensorView beta, scratch.take({t, h}));
  VESTIGE_ASSIGN(const TensorView gate, scratch.take({t, d_all}));
  VESTIGE_TRY(linear_list(
      {product(x_norm, qkv_[0], columns(raw, 0, d_all)), product(x_norm, qkv_[1], columns(raw, d_all, d_all)),
       product(x_norm, qkv_[2], columns(raw, 2 * d_all, d_all)), product(x_norm, f_a_, narrow_decay),
       product(x_norm, b_, beta), product(x_norm, g_a_, narrow_gate)},
      stream));
  VESTIGE_TRY(linear_list({product(narrow_decay, f_b_, reshaped(decay, {t, d_all})), product(narrow_gate, g_b_, gate)},
                          stream));
  VESTIGE_TRY(ops::short_conv({.x = raw, .weight = conv_, .state = state.conv, .out = mixed}, stream));
  VESTIGE_TRY(ops::kda_gate({.x = decay, .a_log = a_log_, .dt_bias = dt_bias_, .decay = decay, .beta = beta}, stream));

  const TensorView out = reshaped(raw, {t, h, d});  // its first part: the convolution has read all of it
  VESTIGE_TRY(delta_rule({.q = heads_of(mixed, 0),
                          .k = heads_of(mixed, 1),
                          .v = heads_of(mixed, 2),
                          .decay = decay,
                          .beta = beta,
                          .state = state.state,
                          .out = out,
                          .scale = 1.0f / std::sqrt(static_cast<float>(d))},
                         decode, stream));
  const TensorView heads = reshaped(out, {t * h, d});
  VESTIGE_TRY(ops::rms_norm(
      {.x = heads, .weight = o_norm_, .gate = reshaped(gate, {t * h, d}), .out = heads, .eps = dims_.eps}, stream));
  return linear(reshaped(out, {t, d_all}), o_, x, stream, true);
}

}  // namespace vestige
