#include "model/arch/decoder.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "model/arch/decoder_state.h"

namespace vestige {

namespace {

struct Layer {
  ConstTensorView attention_norm, feed_forward_norm;
  std::variant<KdaLayer, MlaLayer, GqaLayer> attention;
  std::variant<Mlp, Moe> feed_forward;
  size_t index = 0;  // of its state among the KDA layers, or of its (first) cache
};

class Decoder final : public Model {
 public:
  static Result<std::unique_ptr<Model>> load(DecoderConfig config, Weights weights, const ModelOptions& options);

  const ModelInfo& info() const override { return info_; }
  Result<std::unique_ptr<ModelState>> create_state() const override;
  Status forward(const ForwardParams& params, Stream& stream) const override;
  Status logits(const ConstTensorView& hidden, const TensorView& logits, Stream& stream) const override;
  Status absorb(size_t cache_index, const ConstTensorView& q, const TensorView& absorbed,
                Stream& stream) const override;
  Status value_gram(size_t cache_index, const TensorView& gram, Stream& stream) const override;

 private:
  Status load_layer(int32_t number);
  Status load_weights();
  Status fill_info();
  Status check(const ForwardParams& p) const;
  /// The layer that a cache belongs to.
  Result<const Layer*> layer_of(const char* call, size_t cache_index) const;
  Status attend(const Layer& layer, const ForwardParams& p, const ConstTensorView& x_norm, const TensorView& x,
                const LayerRun& run) const;
  Status forward_group(const ForwardParams& p, std::span<const int32_t> tokens, bool last, const LayerRun& run) const;

  DecoderConfig config_;
  DType row_dtype_ = DType::kBF16;
  Weights weights_;
  ModelInfo info_;
  Weight embedding_, head_;
  ConstTensorView final_norm_;
  std::vector<Layer> layers_;
  std::vector<int32_t> kda_layers_;  // layer numbers
};

Status Decoder::load_layer(int32_t number) {
  const size_t i = static_cast<size_t>(number);
  const std::string prefix = "model.layers." + std::to_string(number) + ".";
  Layer layer;
  VESTIGE_ASSIGN(layer.attention_norm, weights_.get_wide(prefix + "input_layernorm.weight", {config_.d_model}));
  VESTIGE_ASSIGN(layer.feed_forward_norm,
                 weights_.get_wide(prefix + "post_attention_layernorm.weight", {config_.d_model}));
  layer.index = config_.is_kda[i] ? kda_layers_.size() : info_.cache_layers.size();
  if (config_.is_kda[i]) {
    kda_layers_.push_back(number);
    VESTIGE_ASSIGN(layer.attention, KdaLayer::load(prefix + "self_attn.", config_.kda, weights_));
  } else if (config_.is_gqa) {
    VESTIGE_ASSIGN(GqaLayer gqa, GqaLayer::load(prefix + "self_attn.", config_.gqa, weights_));
    for (int32_t head = 0; head < gqa.n_caches(); ++head) {
      info_.cache_layers.push_back({.layer = number,
                                    .head = head,
                                    .layout = gqa.layout(row_dtype_),
                                    .h_q = static_cast<int32_t>(config_.gqa.h_q()),
                                    .scale = gqa.scale(),
                                    .rotation = gqa.rotation()});
    }
    layer.attention = std::move(gqa);
  } else {
    VESTIGE_ASSIGN(MlaLayer mla, MlaLayer::load(prefix + "self_attn.", config_.mla, weights_));
    info_.cache_layers.push_back({.layer = number,
                                  .layout = {.d_content = static_cast<int32_t>(config_.mla.d_content),
                                             .d_branch = static_cast<int32_t>(config_.mla.d_branch),
                                             .dtype = row_dtype_},
                                  .h_q = static_cast<int32_t>(config_.mla.n_heads),
                                  .scale = mla.scale()});
    layer.attention = std::move(mla);
  }
  if (config_.is_dense[i]) {
    VESTIGE_ASSIGN(layer.feed_forward, Mlp::load(prefix + "mlp.", config_.d_model, config_.d_ff, weights_));
  } else {
    VESTIGE_ASSIGN(layer.feed_forward, Moe::load(prefix + config_.moe_prefix, config_.moe, weights_));
  }
  layers_.push_back(std::move(layer));
  return {};
}

Status Decoder::load_weights() {
  const std::string embedding = "model.embed_tokens.weight", head = "lm_head.weight";
  VESTIGE_ASSIGN(embedding_, weights_.get(embedding, {config_.n_vocab, config_.d_model}));
  const int64_t embedding_bytes = weights_.n_bytes();
  for (int32_t i = 0; i < config_.n_layers; ++i) VESTIGE_TRY(load_layer(i));
  VESTIGE_ASSIGN(final_norm_, weights_.get_wide("model.norm.weight", {config_.d_model}));
  const bool tied = config_.tied_head && !weights_.contains(head);
  if (tied) {
    head_ = embedding_;
  } else {
    VESTIGE_ASSIGN(head_, weights_.get(head, {config_.n_vocab, config_.d_model}));
  }
  info_.active_weight_bytes = weights_.n_bytes();
  if (!tied) info_.active_weight_bytes -= embedding_bytes - embedding_bytes / config_.n_vocab;  // one row is read
  for (const Layer& layer : layers_) {
    if (const Moe* moe = std::get_if<Moe>(&layer.feed_forward)) info_.active_weight_bytes -= moe->idle_bytes();
  }
  return {};
}

Status Decoder::fill_info() {
  info_.arch = config_.arch;
  VESTIGE_ASSIGN(info_.identity, weights_.identity());
  info_.n_params = weights_.n_params();
  info_.weight_bytes = weights_.n_bytes();
  info_.n_layers = config_.n_layers;
  info_.d_model = static_cast<int32_t>(config_.d_model);
  info_.n_vocab = config_.n_vocab;
  info_.max_tokens = config_.max_tokens;
  info_.bos_id = config_.bos_id;
  info_.eos_ids = config_.eos_ids;
  return {};
}

Result<std::unique_ptr<Model>> Decoder::load(DecoderConfig config, Weights weights, const ModelOptions& options) {
  auto out = std::make_unique<Decoder>();
  out->config_ = std::move(config);
  out->weights_ = std::move(weights);
  out->row_dtype_ = options.row_dtype;
  VESTIGE_TRY(out->load_weights());
  VESTIGE_TRY(out->fill_info());
  return std::unique_ptr<Model>(std::move(out));
}

Result<std::unique_ptr<ModelState>> Decoder::create_state() const {
  VESTIGE_ASSIGN(auto state, DecoderState::create(config_.kda, kda_layers_));
  return std::unique_ptr<ModelState>(std::move(state));
}

Status Decoder::check(const ForwardParams& p) const {
  const int64_t t = static_cast<int64_t>(p.tokens.size());
  if (t < 1) return invalid_argument("forward: no tokens");
  if (p.position < 0 || p.position > info_.max_tokens - t) {
    return invalid_argument("forward: position = %lld with %lld tokens, want at most %lld in all",
                            static_cast<long long>(p.position), static_cast<long long>(t),
                            static_cast<long long>(info_.max_tokens));
  }
  for (int32_t id : p.tokens) {
    if (id < 0 || id >= info_.n_vocab) {
      return invalid_argument("forward: token id = %d, want [0, %lld)", id, static_cast<long long>(info_.n_vocab));
    }
  }
  if (p.prefill && t > kTileTokens) {
    return invalid_argument("forward: prefill of %lld tokens, want at most %lld", static_cast<long long>(t),
                            static_cast<long long>(kTileTokens));
  }
  if (dynamic_cast<DecoderState*>(p.state) == nullptr) return invalid_argument("forward: state of another model");
  if (p.caches.size() != info_.cache_layers.size()) {
    return invalid_argument("forward: %zu caches, want %zu", p.caches.size(), info_.cache_layers.size());
  }
  for (size_t i = 0; i < p.caches.size(); ++i) {
    const LayerCache* cache = p.caches[i];
    const CacheLayer& want = info_.cache_layers[i];
    if (cache == nullptr || cache->layout() != want.layout || cache->h_q() != want.h_q) {
      return invalid_argument("forward: cache %zu does not have the layout of layer %d", i, want.layer);
    }
    if (cache->n_rows() != p.position) {
      return invalid_argument("forward: cache %zu has %lld rows, want position = %lld", i,
                              static_cast<long long>(cache->n_rows()), static_cast<long long>(p.position));
    }
  }
  const TensorView& out = p.last_hidden;
  if (out.data != nullptr && (out.dtype != DType::kF32 || out.rank != 1 || out.dim(0) != config_.d_model)) {
    return invalid_argument("forward: last_hidden is %s, want [%lld] F32", describe(out).c_str(),
                            static_cast<long long>(config_.d_model));
  }
  return {};
}

Status Decoder::attend(const Layer& layer, const ForwardParams& p, const ConstTensorView& x_norm, const TensorView& x,
                       const LayerRun& run) const {
  if (const KdaLayer* kda = std::get_if<KdaLayer>(&layer.attention)) {
    const KdaState& state = static_cast<DecoderState*>(p.state)->kda(layer.index);
    return kda->forward(x_norm, x, state, !p.prefill, run);
  }
  if (const GqaLayer* gqa = std::get_if<GqaLayer>(&layer.attention)) {
    const auto caches = p.caches.subspan(layer.index, static_cast<size_t>(gqa->n_caches()));
    if (!p.prefill) return gqa->decode(x_norm, x, caches, p.record, run);
    std::function<void(size_t, const ConstTensorView&)> tap;
    if (p.query_tap) tap = [&](size_t kv, const ConstTensorView& q) { p.query_tap(layer.index + kv, q); };
    return gqa->prefill(x_norm, x, caches, tap, run);
  }
  const MlaLayer& mla = std::get<MlaLayer>(layer.attention);
  LayerCache& cache = *p.caches[layer.index];
  if (!p.prefill) return mla.decode(x_norm, x, cache, p.record, run);
  std::function<void(const ConstTensorView&)> tap;
  if (p.query_tap) tap = [&](const ConstTensorView& q) { p.query_tap(layer.index, q); };
  return mla.prefill(x_norm, x, cache, tap, run);
}

Status Decoder::forward_group(const ForwardParams& p, std::span<const int32_t> tokens, bool last,
                              const LayerRun& run) const {
  const Scratch::Frame frame(run.scratch);
  const int64_t t = static_cast<int64_t>(tokens.size());
  VESTIGE_ASSIGN(const TensorView x, run.scratch.take({t, config_.d_model}));
  VESTIGE_ASSIGN(const TensorView x_norm, run.scratch.take({t, config_.d_model}));
  VESTIGE_TRY(ops::gather_rows({.table = embedding_.data,
                                .scale = embedding_.scale,
                                .ids = ConstTensorView(tokens.data(), DType::kI32, {t}),
                                .out = x},
                               run.stream));
  if (p.hidden_tap) p.hidden_tap(-1, x);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    VESTIGE_TRY(rms_norm(x, layer.attention_norm, config_.eps, x_norm, run.stream));
    VESTIGE_TRY(attend(layer, p, x_norm, x, run));
    VESTIGE_TRY(rms_norm(x, layer.feed_forward_norm, config_.eps, x_norm, run.stream));
    VESTIGE_TRY(std::visit([&](const auto& ffn) { return ffn.forward(x_norm, x, run); }, layer.feed_forward));
    if (p.hidden_tap) p.hidden_tap(static_cast<int32_t>(i), x);
  }
  if (p.hidden_tap) {
    VESTIGE_TRY(rms_norm(x, final_norm_, config_.eps, x_norm, run.stream));
    p.hidden_tap(config_.n_layers, x_norm);
  }
  if (!last || p.last_hidden.data == nullptr) return {};
  return rms_norm(x.slice(t - 1, 1), final_norm_, config_.eps, reshaped(p.last_hidden, {1, config_.d_model}),
                  run.stream);
}

Status Decoder::forward(const ForwardParams& params, Stream& stream) const {
  VESTIGE_TRY(check(params));
  auto& state = *static_cast<DecoderState*>(params.state);
  if (params.prefill) {
    VESTIGE_TRY(state.prefill_scratch().compact());
    return forward_group(params, params.tokens, true, {state.prefill_scratch(), stream});
  }
  state.prefill_scratch().clear();
  VESTIGE_TRY(state.decode_scratch().compact());
  // Groups of this size keep to matmul's bandwidth-bound path, where a row's bits do not depend on its neighbours.
  constexpr size_t kGroup = MatmulParams::kGemvRows;
  for (size_t begin = 0; begin < params.tokens.size(); begin += kGroup) {
    const auto group = params.tokens.subspan(begin, std::min(kGroup, params.tokens.size() - begin));
    const bool last = begin + group.size() == params.tokens.size();
    VESTIGE_TRY(forward_group(params, group, last, {state.decode_scratch(), stream}));
  }
  return {};
}

Status Decoder::logits(const ConstTensorView& hidden, const TensorView& logits, Stream& stream) const {
  if (hidden.n_elements() != config_.d_model || logits.n_elements() != config_.n_vocab || !hidden.contiguous() ||
      !logits.contiguous()) {
    return invalid_argument("logits: hidden %s and logits %s, want [%lld] and [%lld] F32", describe(hidden).c_str(),
                            describe(logits).c_str(), static_cast<long long>(config_.d_model),
                            static_cast<long long>(config_.n_vocab));
  }
  return linear(reshaped(hidden, {1, config_.d_model}), head_, reshaped(logits, {1, config_.n_vocab}), stream);
}

Result<const Layer*> Decoder::layer_of(const char* call, size_t cache_index) const {
  if (cache_index >= info_.cache_layers.size()) {
    return invalid_argument("%s: cache_index = %zu, want [0, %zu)", call, cache_index, info_.cache_layers.size());
  }
  return &layers_[static_cast<size_t>(info_.cache_layers[cache_index].layer)];
}

Status Decoder::absorb(size_t cache_index, const ConstTensorView& q, const TensorView& absorbed, Stream& stream) const {
  VESTIGE_ASSIGN(const Layer* const layer, layer_of("absorb", cache_index));
  if (const GqaLayer* gqa = std::get_if<GqaLayer>(&layer->attention)) return gqa->absorb(q, absorbed);
  return std::get<MlaLayer>(layer->attention).absorb(q, absorbed, stream);
}

Status Decoder::value_gram(size_t cache_index, const TensorView& gram, Stream& stream) const {
  VESTIGE_ASSIGN(const Layer* const layer, layer_of("value_gram", cache_index));
  if (const GqaLayer* gqa = std::get_if<GqaLayer>(&layer->attention))
    return gqa->value_gram(info_.cache_layers[cache_index].head, gram, stream);
  return std::get<MlaLayer>(layer->attention).value_gram(gram, stream);
}

}  // namespace

Result<std::unique_ptr<Model>> load_decoder(DecoderConfig config, Weights weights, const ModelOptions& options) {
  return Decoder::load(std::move(config), std::move(weights), options);
}

}  // namespace vestige
