#include "model/arch/kimi_linear.h"

#include <utility>

namespace vestige {

namespace {

/// layer_types and mlp_layer_types, where present, win over the older keys.
Status read_named_types(const Config& config, const char* key, const char* yes, const char* no,
                        std::vector<bool>* out) {
  VESTIGE_ASSIGN(const auto types, config.texts(key));
  if (types.size() != out->size()) {
    return data_loss("%s: %s has %zu entries, want %zu", config.where().c_str(), key, types.size(), out->size());
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != yes && types[i] != no) {
      return data_loss("%s: %s holds \"%.40s\", want \"%s\" or \"%s\"", config.where().c_str(), key, types[i].c_str(),
                       yes, no);
    }
    (*out)[i] = types[i] == yes;
  }
  return {};
}

/// kda_layers and full_attn_layers count from 1, and together name every layer once.
Status read_attention_lists(const Config& linear, int32_t n_layers, std::vector<bool>* is_kda) {
  VESTIGE_ASSIGN(const auto kda, linear.integers({"kda_layers", 1, n_layers}));
  VESTIGE_ASSIGN(const auto full, linear.integers({"full_attn_layers", 1, n_layers}));
  std::vector<int> n_named(static_cast<size_t>(n_layers), 0);
  for (int64_t layer : kda) {
    (*is_kda)[static_cast<size_t>(layer - 1)] = true;
    ++n_named[static_cast<size_t>(layer - 1)];
  }
  for (int64_t layer : full) ++n_named[static_cast<size_t>(layer - 1)];
  for (int32_t i = 0; i < n_layers; ++i) {
    if (n_named[static_cast<size_t>(i)] != 1) {
      return data_loss("%s: layer %d (counted from 1) is named %d times in kda_layers and full_attn_layers, want once",
                       linear.where().c_str(), i + 1, n_named[static_cast<size_t>(i)]);
    }
  }
  return {};
}

Status read_attention(const Config& config, DecoderConfig* out) {
  VESTIGE_TRY(read_mla(config, out));
  VESTIGE_ASSIGN(const bool no_positions, config.flag("mla_use_nope", true));
  if (!no_positions) {
    VESTIGE_ASSIGN(out->mla.rotation, read_rotation(config, out->mla.d_branch, out->max_tokens));
  }
  out->kda.d_model = out->d_model;

  VESTIGE_ASSIGN(const Config linear, config.section("linear_attn_config"));
  VESTIGE_ASSIGN(out->kda.n_heads, linear.integer({"num_heads", 1, 1024}));
  VESTIGE_ASSIGN(out->kda.d_head, linear.integer({"head_dim", 1, 1024}));
  VESTIGE_ASSIGN(out->kda.n_taps, linear.integer({"short_conv_kernel_size", 2, 64}));
  out->kda.eps = out->eps;
  out->is_kda.assign(static_cast<size_t>(out->n_layers), false);
  if (config.has("layer_types")) {
    return read_named_types(config, "layer_types", "linear_attention", "full_attention", &out->is_kda);
  }
  return read_attention_lists(linear, out->n_layers, &out->is_kda);
}

Status read_experts(const Config& config, DecoderConfig* out) {
  MoeDims& moe = out->moe;
  moe.d_model = out->d_model;
  VESTIGE_ASSIGN(const int64_t n_experts,
                 config.integer({"num_experts", 1, 1 << 14, IntKey::kRequired, "num_local_experts"}));
  VESTIGE_ASSIGN(const int64_t top_k,
                 config.integer({"num_experts_per_token", 1, n_experts, IntKey::kRequired, "num_experts_per_tok"}));
  VESTIGE_ASSIGN(const int64_t n_shared, config.integer({"num_shared_experts", 0, 64, 0, "n_shared_experts"}));
  VESTIGE_ASSIGN(moe.d_expert, config.integer({"moe_intermediate_size", 1, 1 << 18}));
  VESTIGE_ASSIGN(const int64_t n_groups, config.integer({"num_expert_group", 1, n_experts, 1, "n_group"}));
  VESTIGE_ASSIGN(const int64_t topk_group, config.integer({"topk_group", 1, n_groups, 1}));
  if (n_experts % n_groups != 0 || top_k > n_experts / n_groups * topk_group) {
    return data_loss(
        "%s: num_expert_group = %lld, want a divisor of num_experts = %lld, with at least "
        "num_experts_per_token = %lld experts in topk_group = %lld groups",
        config.where().c_str(), static_cast<long long>(n_groups), static_cast<long long>(n_experts),
        static_cast<long long>(top_k), static_cast<long long>(topk_group));
  }
  moe.n_experts = static_cast<int32_t>(n_experts);
  moe.top_k = static_cast<int32_t>(top_k);
  moe.n_shared = static_cast<int32_t>(n_shared);
  moe.n_groups = static_cast<int32_t>(n_groups);
  moe.topk_group = static_cast<int32_t>(topk_group);
  VESTIGE_ASSIGN(moe.renormalize, config.flag("moe_renormalize", true));
  VESTIGE_ASSIGN(const double scale, config.real({"routed_scaling_factor", 1e-6, 1e6}));
  moe.scale = static_cast<float>(scale);
  VESTIGE_ASSIGN(const std::string activation, config.text("moe_router_activation_func", "sigmoid"));
  if (activation != "sigmoid" && activation != "softmax") {
    return unsupported("%s: moe_router_activation_func = \"%s\", want \"sigmoid\" or \"softmax\"",
                       config.where().c_str(), activation.c_str());
  }
  moe.activation = activation == "sigmoid" ? RouterActivation::kSigmoid : RouterActivation::kSoftmax;
  return {};
}

Status read_feed_forward(const Config& config, DecoderConfig* out) {
  VESTIGE_ASSIGN(const int64_t n_dense, config.integer({"first_k_dense_replace", 0, 1 << 20, 1}));
  out->is_dense.assign(static_cast<size_t>(out->n_layers), false);
  bool all_dense = true;
  if (config.has("mlp_layer_types")) {
    VESTIGE_TRY(read_named_types(config, "mlp_layer_types", "dense", "sparse", &out->is_dense));
    for (bool dense : out->is_dense) all_dense = all_dense && dense;
  } else {
    for (int32_t i = 0; i < out->n_layers; ++i) out->is_dense[static_cast<size_t>(i)] = i < n_dense;
    all_dense = n_dense >= out->n_layers;
  }
  return all_dense ? Status() : read_experts(config, out);
}

}  // namespace

Result<DecoderConfig> read_kimi_linear_config(const Config& config) {
  DecoderConfig out;
  out.arch = "kimi_linear";
  out.moe_prefix = "block_sparse_moe.";
  VESTIGE_TRY(refuse_common(config));
  if (config.has("q_lora_rank")) return unsupported("%s: q_lora_rank is not null", config.where().c_str());
  VESTIGE_TRY(
      read_sizes(config, 1e-5, {"model_max_length", 1, int64_t{1} << 31, 1 << 20, "max_position_embeddings"}, &out));
  VESTIGE_TRY(read_attention(config, &out));
  VESTIGE_TRY(read_feed_forward(config, &out));
  return out;
}

Result<std::unique_ptr<Model>> load_kimi_linear(const Config& config, Weights weights, const ModelOptions& options) {
  VESTIGE_ASSIGN(DecoderConfig read, read_kimi_linear_config(config));
  return load_decoder(std::move(read), std::move(weights), options);
}

}  // namespace vestige
