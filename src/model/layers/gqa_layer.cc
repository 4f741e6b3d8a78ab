#include "model/layers/gqa_layer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace vestige {

namespace {

/// Heads [begin, begin + n) of [t, h, d], strides kept.
TensorView heads_of(const TensorView& x, int64_t begin, int64_t n) {
  TensorView out = x;
  out.data = x.as<float>() + begin * x.stride[1];
  out.shape[1] = n;
  return out;
}

/// One head of [t, h, d] as [t, d].
ConstTensorView one_head(const TensorView& x, int64_t head) {
  ConstTensorView out(x.as<float>() + head * x.stride[1], DType::kF32, {x.dim(0), x.dim(2)});
  out.stride[0] = x.stride[0];
  return out;
}

/// [t, 1] of ones, in the caller's frame: what a bias is multiplied with.
Result<TensorView> ones_column(int64_t t, const LayerRun& run) {
  VESTIGE_ASSIGN(const TensorView ones, run.scratch.take({t, 1}));
  std::fill_n(ones.as<float>(), t, 1.0f);
  return ones;
}

}  // namespace

Result<GqaLayer> GqaLayer::load(const std::string& prefix, const GqaDims& dims, Weights& weights) {
  GqaLayer out;
  out.dims_ = dims;
  const int64_t n_q = dims.n_heads * dims.d_head, n_kv = dims.n_kv * dims.d_head;
  VESTIGE_ASSIGN(out.q_, weights.get(prefix + "q_proj.weight", {n_q, dims.d_model}));
  VESTIGE_ASSIGN(out.k_, weights.get(prefix + "k_proj.weight", {n_kv, dims.d_model}));
  VESTIGE_ASSIGN(out.v_, weights.get(prefix + "v_proj.weight", {n_kv, dims.d_model}));
  VESTIGE_ASSIGN(out.o_, weights.get(prefix + "o_proj.weight", {dims.d_model, n_q}));
  const auto bias = [&](const char* name, int64_t n, Weight* to) -> Status {
    VESTIGE_ASSIGN(const ConstTensorView read, weights.get_wide(prefix + name, {n}));
    to->data = reshaped(read, {n, 1});  // a product with one column of ones, which matmul does as it does any other
    return {};
  };
  if (dims.qkv_bias) {
    VESTIGE_TRY(bias("q_proj.bias", n_q, &out.q_bias_));
    VESTIGE_TRY(bias("k_proj.bias", n_kv, &out.k_bias_));
    VESTIGE_TRY(bias("v_proj.bias", n_kv, &out.v_bias_));
  }
  if (dims.o_bias) VESTIGE_TRY(bias("o_proj.bias", dims.d_model, &out.o_bias_));
  if (dims.qk_norm) {
    VESTIGE_ASSIGN(out.q_norm_, weights.get_wide(prefix + "q_norm.weight", {dims.d_head}));
    VESTIGE_ASSIGN(out.k_norm_, weights.get_wide(prefix + "k_norm.weight", {dims.d_head}));
  }
  return out;
}

float GqaLayer::scale() const { return dims_.rotation.score_scale / std::sqrt(static_cast<float>(dims_.d_head)); }

RowLayout GqaLayer::layout(DType row_dtype) const {
  return {.d_content = static_cast<int32_t>(dims_.d_head),
          .d_branch = static_cast<int32_t>(dims_.d_head),
          .dtype = row_dtype,
          .scored_content = false};
}

Status GqaLayer::add_biases(const Projected& p, const LayerRun& run) const {
  const Scratch::Frame frame(run.scratch);
  const int64_t t = p.q.dim(0);
  VESTIGE_ASSIGN(const TensorView ones, ones_column(t, run));
  const auto bias = [&](const Weight& w, const TensorView& out) {
    MatmulParams one = product(ones, w, reshaped(out, {t, out.dim(1) * out.dim(2)}));
    one.accumulate = true;
    return one;
  };
  return linear_list({bias(q_bias_, p.q), bias(k_bias_, p.k), bias(v_bias_, p.v)}, run.stream);
}

Status GqaLayer::rotate(int64_t position, const Projected& p, const LayerRun& run) const {
  const Scratch::Frame frame(run.scratch);
  const int64_t t = p.q.dim(0);
  VESTIGE_ASSIGN(const TensorView positions, run.scratch.take({t}, DType::kI32));
  std::iota(positions.as<int32_t>(), positions.as<int32_t>() + t, static_cast<int32_t>(position));
  for (const TensorView& x : {p.q, p.k}) {
    VESTIGE_TRY(ops::rotate({.x = x,
                             .positions = positions,
                             .frequencies = {dims_.rotation.frequencies.data(), DType::kF32, {dims_.d_head / 2}},
                             .scale = dims_.rotation.scale,
                             .interleaved = dims_.rotation.interleaved},
                            run.stream));
  }
  return {};
}

// The views stay valid: they are taken in the caller's frame.
Result<GqaLayer::Projected> GqaLayer::project(const ConstTensorView& x_norm, int64_t position,
                                              const LayerRun& run) const {
  const int64_t t = x_norm.dim(0), d = dims_.d_head, n_q = dims_.n_heads, n_kv = dims_.n_kv;
  Projected p;
  VESTIGE_ASSIGN(p.q, run.scratch.take({t, n_q, d}));
  VESTIGE_ASSIGN(p.k, run.scratch.take({t, n_kv, d}));
  VESTIGE_ASSIGN(p.v, run.scratch.take({t, n_kv, d}));
  VESTIGE_TRY(
      linear_list({product(x_norm, q_, reshaped(p.q, {t, n_q * d})), product(x_norm, k_, reshaped(p.k, {t, n_kv * d})),
                   product(x_norm, v_, reshaped(p.v, {t, n_kv * d}))},
                  run.stream));
  if (dims_.qkv_bias) VESTIGE_TRY(add_biases(p, run));
  if (dims_.qk_norm) {
    const TensorView q = reshaped(p.q, {t * n_q, d}), k = reshaped(p.k, {t * n_kv, d});
    VESTIGE_TRY(rms_norm(q, q_norm_, dims_.eps, q, run.stream));
    VESTIGE_TRY(rms_norm(k, k_norm_, dims_.eps, k, run.stream));
  }
  VESTIGE_TRY(rotate(position, p, run));
  return p;
}

Status GqaLayer::append(const Projected& p, int64_t first, int64_t n, std::span<LayerCache* const> caches,
                        Stream& stream) const {
  for (size_t g = 0; g < caches.size(); ++g) {
    const auto head = static_cast<int64_t>(g);
    VESTIGE_TRY(caches[g]->append(one_head(p.v, head).slice(first, n), one_head(p.k, head).slice(first, n), stream));
  }
  return {};
}

Status GqaLayer::add_output(const TensorView& heads, const TensorView& x, const LayerRun& run) const {
  const Scratch::Frame frame(run.scratch);
  const int64_t t = x.dim(0);
  VESTIGE_TRY(linear(reshaped(heads, {t, dims_.n_heads * dims_.d_head}), o_, x, run.stream, true));
  if (!dims_.o_bias) return {};
  VESTIGE_ASSIGN(const TensorView ones, ones_column(t, run));
  return linear(ones, o_bias_, x, run.stream, true);
}

Status GqaLayer::prefill(const ConstTensorView& x_norm, const TensorView& x, std::span<LayerCache* const> caches,
                         const std::function<void(size_t kv, const ConstTensorView& q)>& query_tap,
                         const LayerRun& run) const {
  const Scratch::Frame frame(run.scratch);
  const int64_t t = x.dim(0), position = caches[0]->n_rows(), h_q = dims_.h_q(), d = dims_.d_head;
  VESTIGE_ASSIGN(const Projected p, project(x_norm, position, run));
  VESTIGE_TRY(append(p, 0, t, caches, run.stream));
  std::vector<RowPages> rows;
  for (LayerCache* cache : caches) rows.push_back(cache->pages());
  VESTIGE_ASSIGN(const TensorView heads, run.scratch.take({t, dims_.n_heads, d}));
  if (query_tap) {  // `heads` is free until attention writes it
    for (size_t g = 0; g < caches.size(); ++g) {
      const TensorView from = heads_of(p.q, static_cast<int64_t>(g) * h_q, h_q);
      const TensorView dense(heads.data, DType::kF32, {t, h_q, d});
      for (int64_t i = 0; i < t; ++i) {
        std::copy_n(from.as<float>() + i * from.stride[0], h_q * d, dense.as<float>() + i * h_q * d);
      }
      query_tap(g, dense);
    }
  }
  VESTIGE_TRY(ops::attend_prefill_gqa({.q = p.q, .rows = rows, .out = heads, .position = position, .scale = scale()},
                                      run.stream));
  return add_output(heads, x, run);
}

Status GqaLayer::decode(const ConstTensorView& x_norm, const TensorView& x, std::span<LayerCache* const> caches,
                        StepRecord* record, const LayerRun& run) const {
  const Scratch::Frame frame(run.scratch);
  const int64_t t = x.dim(0), h_q = dims_.h_q(), d = dims_.d_head;
  VESTIGE_ASSIGN(const Projected p, project(x_norm, caches[0]->n_rows(), run));
  VESTIGE_ASSIGN(const TensorView absorbed, run.scratch.take({t, dims_.n_heads, 2 * d}));
  VESTIGE_ASSIGN(const TensorView heads, run.scratch.take({t, dims_.n_heads, d}));
  // Absorbing does not ask whose queries they are: token after token, head after head.
  VESTIGE_TRY(absorb(reshaped(p.q, {t * dims_.n_kv, h_q, d}), reshaped(absorbed, {t * dims_.n_kv, h_q, 2 * d})));
  for (int64_t i = 0; i < t; ++i) {
    VESTIGE_TRY(append(p, i, 1, caches, run.stream));
    for (size_t g = 0; g < caches.size(); ++g) {
      const int64_t first = static_cast<int64_t>(g) * h_q;
      VESTIGE_TRY(caches[g]->attend(heads_of(absorbed.slice(i, 1), first, h_q), heads_of(heads.slice(i, 1), first, h_q),
                                    {}, record, run.stream));
    }
  }
  return add_output(heads, x, run);
}

Status GqaLayer::absorb(const ConstTensorView& q, const TensorView& absorbed) const {
  const int64_t d = dims_.d_head, h_q = dims_.h_q();
  const bool right = q.dtype == DType::kF32 && q.rank == 3 && q.dim(1) == h_q && q.dim(2) == d && q.contiguous() &&
                     absorbed.dtype == DType::kF32 && absorbed.rank == 3 && absorbed.dim(0) == q.dim(0) &&
                     absorbed.dim(1) == h_q && absorbed.dim(2) == 2 * d && absorbed.contiguous();
  if (!right) {
    return invalid_argument("absorb: q is %s and absorbed %s, want [n, %lld, %lld] and [n, %lld, %lld] F32",
                            describe(q).c_str(), describe(absorbed).c_str(), static_cast<long long>(h_q),
                            static_cast<long long>(d), static_cast<long long>(h_q), static_cast<long long>(2 * d));
  }
  const float* from = q.as<float>();
  float* to = absorbed.as<float>();
  for (int64_t i = 0; i < q.dim(0) * q.dim(1); ++i, from += d, to += 2 * d) {
    std::fill_n(to, d, 0.0f);
    std::copy_n(from, d, to + d);
  }
  return {};
}

Status GqaLayer::value_gram(int64_t kv, const TensorView& gram, Stream& stream) const {
  const int64_t d = dims_.d_head, h_q = dims_.h_q(), n_in = dims_.n_heads * d, d_model = dims_.d_model;
  if (gram.dtype != DType::kF32 || gram.rank != 2 || gram.dim(0) != d || gram.dim(1) != d || !gram.contiguous()) {
    return invalid_argument("value_gram: gram is %s, want [%lld, %lld] F32", describe(gram).c_str(),
                            static_cast<long long>(d), static_cast<long long>(d));
  }
  // Columns of W_O, however it is stored: what unit vectors become.
  std::vector<float> unit(static_cast<size_t>(h_q * d * n_in)), columns_of_o(static_cast<size_t>(h_q * d * d_model));
  for (int64_t i = 0; i < h_q * d; ++i) unit[static_cast<size_t>(i * n_in + kv * h_q * d + i)] = 1.0f;
  VESTIGE_TRY(linear({unit.data(), DType::kF32, {h_q * d, n_in}}, o_,
                     TensorView(columns_of_o.data(), DType::kF32, {h_q * d, d_model}), stream));
  VESTIGE_TRY(stream.synchronize());
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (int64_t g = 0; g < h_q; ++g) {
        const float* a = columns_of_o.data() + (g * d + i) * d_model;
        const float* b = columns_of_o.data() + (g * d + j) * d_model;
        for (int64_t k = 0; k < d_model; ++k) sum += double(a[k]) * double(b[k]);
      }
      gram.as<float>()[i * d + j] = gram.as<float>()[j * d + i] = static_cast<float>(sum);
    }
  }
  return {};
}

}  // namespace vestige
