#include "model/arch/deepseek_v2.h"

#include <algorithm>
#include <utility>

namespace vestige {

namespace {

Status read_attention(const Config& config, DecoderConfig* out) {
  VESTIGE_TRY(read_mla(config, out));
  VESTIGE_ASSIGN(out->mla.d_q_latent, config.integer({"q_lora_rank", 1, 1 << 16, 0}));
  VESTIGE_ASSIGN(out->mla.rotation, read_rotation(config, out->mla.d_branch, out->max_tokens));
  if (!out->mla.rotation.interleaved) return unsupported("%s: rope_interleave = false", config.where().c_str());
  out->is_kda.assign(static_cast<size_t>(out->n_layers), false);
  return {};
}

Status refuse_router(const Config& config) {
  const char* where = config.where().c_str();
  VESTIGE_ASSIGN(const std::string method, config.text("topk_method", "greedy"));
  if (method != "greedy") return unsupported("%s: topk_method = \"%.40s\", want \"greedy\"", where, method.c_str());
  VESTIGE_ASSIGN(const std::string scoring, config.text("scoring_func", "softmax"));
  if (scoring != "softmax") {
    return unsupported("%s: scoring_func = \"%.40s\", want \"softmax\"", where, scoring.c_str());
  }
  VESTIGE_ASSIGN(const bool renormalize, config.flag("norm_topk_prob", false));
  if (renormalize) return unsupported("%s: norm_topk_prob = true", where);
  return {};
}

Status read_feed_forward(const Config& config, DecoderConfig* out) {
  VESTIGE_ASSIGN(int64_t n_dense, config.integer({"first_k_dense_replace", 0, 1 << 20, 0}));
  if (!config.has("n_routed_experts")) n_dense = out->n_layers;
  out->is_dense.assign(static_cast<size_t>(out->n_layers), false);
  std::fill_n(out->is_dense.begin(), std::min<int64_t>(n_dense, out->n_layers), true);
  if (n_dense >= out->n_layers) return {};

  VESTIGE_TRY(refuse_router(config));
  MoeDims& moe = out->moe;
  moe.d_model = out->d_model;
  VESTIGE_ASSIGN(const int64_t n_experts, config.integer({"n_routed_experts", 1, 1 << 14}));
  VESTIGE_ASSIGN(const int64_t top_k, config.integer({"num_experts_per_tok", 1, n_experts}));
  VESTIGE_ASSIGN(const int64_t n_shared, config.integer({"n_shared_experts", 0, 64, 0}));
  VESTIGE_ASSIGN(moe.d_expert, config.integer({"moe_intermediate_size", 1, 1 << 18}));
  VESTIGE_ASSIGN(const double scale, config.real({"routed_scaling_factor", 1e-6, 1e6, 1.0}));
  moe.n_experts = static_cast<int32_t>(n_experts);
  moe.top_k = static_cast<int32_t>(top_k);
  moe.n_shared = static_cast<int32_t>(n_shared);
  moe.scale = static_cast<float>(scale);
  moe.renormalize = false;
  moe.activation = RouterActivation::kSoftmax;
  moe.names = {.gate = "gate_proj", .up = "up_proj", .down = "down_proj", .has_bias = false};
  return {};
}

}  // namespace

Result<DecoderConfig> read_deepseek_v2_config(const Config& config) {
  DecoderConfig out;
  out.arch = "deepseek_v2";
  out.moe_prefix = "mlp.";
  VESTIGE_TRY(refuse_common(config));
  VESTIGE_TRY(read_sizes(config, 1e-6, {"max_position_embeddings", 1, int64_t{1} << 31, 2048}, &out));
  VESTIGE_TRY(read_attention(config, &out));
  VESTIGE_TRY(read_feed_forward(config, &out));
  return out;
}

Result<std::unique_ptr<Model>> load_deepseek_v2(const Config& config, Weights weights, const ModelOptions& options) {
  VESTIGE_ASSIGN(DecoderConfig read, read_deepseek_v2_config(config));
  return load_decoder(std::move(read), std::move(weights), options);
}

}  // namespace vestige
