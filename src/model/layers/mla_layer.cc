#include "model/layers/mla_layer.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/load_number.h"

namespace vestige {

// Fixed in the published model code; rms_norm_eps of the config does not reach the norms of the latents.
static constexpr float kLatentNormEps = 1e-6f;

Result<MlaLayer> MlaLayer::load(const std::string& prefix, const MlaDims& dims, Weights& weights) {
  MlaLayer out;
  out.dims_ = dims;
  const int64_t h = dims.n_heads, d_kv = dims.d_nope + dims.d_v;
  if (dims.d_q_latent == 0) {
    VESTIGE_ASSIGN(out.q_, weights.get(prefix + "q_proj.weight", {h * dims.d_q(), dims.d_model}));
  } else {
    VESTIGE_ASSIGN(out.q_a_, weights.get(prefix + "q_a_proj.weight", {dims.d_q_latent, dims.d_model}));
    VESTIGE_ASSIGN(out.q_a_norm_, weights.get_wide(prefix + "q_a_layernorm.weight", {dims.d_q_latent}));
    VESTIGE_ASSIGN(out.q_, weights.get(prefix + "q_b_proj.weight", {h * dims.d_q(), dims.d_q_latent}));
  }
  VESTIGE_ASSIGN(out.kv_a_, weights.get(prefix + "kv_a_proj_with_mqa.weight", {dims.d_row(), dims.d_model}));
  VESTIGE_ASSIGN(out.kv_a_norm_, weights.get_wide(prefix + "kv_a_layernorm.weight", {dims.d_content}));
  VESTIGE_ASSIGN(out.o_, weights.get(prefix + "o_proj.weight", {dims.d_model, h * dims.d_v}));
  VESTIGE_ASSIGN(const ConstTensorView kv_b, weights.get_wide(prefix + "kv_b_proj.weight", {h * d_kv, dims.d_content}));
  ConstTensorView by_head = reshaped(kv_b, {h, d_kv, dims.d_content});
  out.w_uk_ = by_head;
  out.w_uk_.shape[1] = dims.d_nope;
  out.w_uv_ = by_head;
  out.w_uv_.data = kv_b.slice(dims.d_nope, dims.d_v).data;
  out.w_uv_.shape[1] = dims.d_v;
  return out;
}

float MlaLayer::scale() const { return dims_.rotation.score_scale / std::sqrt(static_cast<float>(dims_.d_q())); }

Status MlaLayer::project(const ConstTensorView& x_norm, int64_t position, const TensorView& q, const TensorView& rows,
                         const LayerRun& run) const {
  const Scratch::Frame frame(run.scratch);
  const TensorView q_flat = reshaped(q, {q.dim(0), dims_.n_heads * dims_.d_q()});
  if (dims_.d_q_latent == 0) {
    VESTIGE_TRY(linear_list({product(x_norm, q_, q_flat), product(x_norm, kv_a_, rows)}, run.stream));
  } else {
    VESTIGE_ASSIGN(const TensorView latent, run.scratch.take({q.dim(0), dims_.d_q_latent}));
    VESTIGE_TRY(linear_list({product(x_norm, q_a_, latent), product(x_norm, kv_a_, rows)}, run.stream));
    VESTIGE_TRY(rms_norm(latent, q_a_norm_, kLatentNormEps, latent, run.stream));
    VESTIGE_TRY(linear(latent, q_, q_flat, run.stream));
  }
  const TensorView content = columns(rows, 0, dims_.d_content);
  VESTIGE_TRY(rms_norm(content, kv_a_norm_, kLatentNormEps, content, run.stream));
  return dims_.rotation.frequencies.empty() ? Status() : rotate(position, q, rows, run);
}

Status MlaLayer::rotate(int64_t position, const TensorView& q, const TensorView& rows, const LayerRun& run) const {
  const Scratch::Frame frame(run.scratch);
  const int64_t t = q.dim(0);
  VESTIGE_ASSIGN(const TensorView positions, run.scratch.take({t}, DType::kI32));
  std::iota(positions.as<int32_t>(), positions.as<int32_t>() + t, static_cast<int32_t>(position));
  const auto turn = [&](const TensorView& branch) {
    return ops::rotate({.x = branch,
                        .positions = positions,
                        .frequencies = {dims_.rotation.frequencies.data(), DType::kF32, {dims_.d_branch / 2}},
                        .scale = dims_.rotation.scale,
                        .interleaved = dims_.rotation.interleaved},
                       run.stream);
  };
  VESTIGE_TRY(turn(columns(q, dims_.d_nope, dims_.d_branch)));
  return turn(columns(reshaped(rows, {t, 1, dims_.d_row()}), dims_.d_content, dims_.d_branch));
}

Status MlaLayer::prefill(const ConstTensorView& x_norm, const TensorView& x, LayerCache& cache,
                         const std::function<void(const ConstTensorView& q)>& query_tap, const LayerRun& run) const {
  const Scratch::Frame frame(run.scratch);
  const int64_t t = x.dim(0), position = cache.n_rows();
  VESTIGE_ASSIGN(const TensorView q, run.scratch.take({t, dims_.n_heads, dims_.d_q()}));
  VESTIGE_ASSIGN(const TensorView rows, run.scratch.take({t, dims_.d_row()}));
  VESTIGE_ASSIGN(const TensorView heads, run.scratch.take({t, dims_.n_heads, dims_.d_v}));
  VESTIGE_TRY(project(x_norm, position, q, rows, run));
  if (query_tap) query_tap(q);
  VESTIGE_TRY(cache.append(rows, run.stream));
  VESTIGE_TRY(ops::attend_prefill({.q = q,
                                   .rows = cache.pages(),
                                   .w_uk = w_uk_,
                                   .w_uv = w_uv_,
                                   .out = heads,
                                   .position = position,
                                   .scale = scale()},
                                  run.stream));
  return linear(reshaped(heads, {t, dims_.n_heads * dims_.d_v}), o_, x, run.stream, true);
}

Status MlaLayer::absorb(const ConstTensorView& q, const TensorView& absorbed, Stream& stream) const {
  VESTIGE_TRY(ops::head_matmul(
      {.x = columns(q, 0, dims_.d_nope), .w = w_uk_, .out = columns(absorbed, 0, dims_.d_content), .transposed = true},
      stream));
  const float* from = q.as<float>() + dims_.d_nope;
  float* to = absorbed.as<float>() + dims_.d_content;
  for (int64_t i = 0; i < q.dim(0) * q.dim(1); ++i, from += dims_.d_q(), to += dims_.d_row()) {
    std::memcpy(to, from, static_cast<size_t>(dims_.d_branch) * sizeof(float));
  }
  return {};
}

Status MlaLayer::value_gram(const TensorView& gram, Stream& stream) const {
  const int64_t d = dims_.d_content, n = dims_.n_heads * dims_.d_v;
  if (gram.dtype != DType::kF32 || gram.rank != 2 || gram.dim(0) != d || gram.dim(1) != d || !gram.contiguous()) {
    return invalid_argument("value_gram: gram is %s, want [%lld, %lld] F32", describe(gram).c_str(),
                            static_cast<long long>(d), static_cast<long long>(d));
  }
  VESTIGE_ASSIGN(Buffer buffer, Buffer::create(static_cast<size_t>(n * d) * sizeof(float)));
  const TensorView columns_of_v(buffer.data(), DType::kF32, {d, n});  // all heads' W_UV, one above the other, turned
  float* to = columns_of_v.as<float>();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = i / dims_.d_v * w_uv_.stride[0] + i % dims_.d_v * w_uv_.stride[1];
    for (int64_t j = 0; j < d; ++j) to[j * n + i] = load_number(w_uv_.data, w_uv_.dtype, row + j);
  }
  VESTIGE_TRY(ops::matmul({.x = columns_of_v, .w = columns_of_v, .out = gram}, stream));
  VESTIGE_TRY(stream.synchronize());
  float* g = gram.as<float>();
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t j = 0; j < i; ++j) g[j * d + i] = g[i * d + j];
  }
  return {};
}

Status MlaLayer::decode(const ConstTensorView& x_norm, const TensorView& x, LayerCache& cache, StepRecord* record,
                        const LayerRun& run) const {
  const Scratch::Frame frame(run.scratch);
  const int64_t t = x.dim(0), h = dims_.n_heads;
  VESTIGE_ASSIGN(const TensorView q, run.scratch.take({t, h, dims_.d_q()}));
  VESTIGE_ASSIGN(const TensorView rows, run.scratch.take({t, dims_.d_row()}));
  VESTIGE_ASSIGN(const TensorView absorbed, run.scratch.take({t, h, dims_.d_row()}));
  VESTIGE_ASSIGN(const TensorView attended, run.scratch.take({t, h, dims_.d_content}));
  VESTIGE_ASSIGN(const TensorView heads, run.scratch.take({t, h, dims_.d_v}));
  VESTIGE_TRY(project(x_norm, cache.n_rows(), q, rows, run));
  VESTIGE_TRY(absorb(q, absorbed, run.stream));
  for (int64_t i = 0; i < t; ++i) {
    VESTIGE_TRY(cache.append(rows.slice(i, 1), run.stream));
    VESTIGE_TRY(cache.attend(absorbed.slice(i, 1), attended.slice(i, 1), {}, record, run.stream));
  }
  VESTIGE_TRY(ops::head_matmul({.x = attended, .w = w_uv_, .out = heads, .transposed = false}, run.stream));
  return linear(reshaped(heads, {t, h * dims_.d_v}), o_, x, run.stream, true);
}

}  // namespace vestige
