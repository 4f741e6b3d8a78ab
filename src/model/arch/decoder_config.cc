#include "model/arch/decoder_config.h"

namespace vestige {

Status refuse_common(const Config& config, std::initializer_list<const char*> biases) {
  const char* where = config.where().c_str();
  for (const char* key : biases) {
    VESTIGE_ASSIGN(const bool bias, config.flag(key, false));
    if (bias) return unsupported("%s: %s = true", where, key);
  }
  VESTIGE_ASSIGN(const std::string act, config.text("hidden_act", "silu"));
  if (act != "silu") return unsupported("%s: hidden_act = \"%s\", want \"silu\"", where, act.c_str());
  VESTIGE_ASSIGN(const int64_t frequency, config.integer({"moe_layer_freq", 1, 1 << 20, 1}));
  if (frequency != 1) return unsupported("%s: moe_layer_freq = %lld, want 1", where, static_cast<long long>(frequency));
  if (!config.has("quantization_config")) return {};
  VESTIGE_ASSIGN(const Config quantization, config.section("quantization_config"));
  VESTIGE_ASSIGN(const std::string method, quantization.text("quant_method", ""));
  VESTIGE_ASSIGN(const auto block, quantization.integers({"weight_block_size", 1, 1 << 20}));
  if (method != "fp8" || block != std::vector<int64_t>(2, Weights::kScaleBlock)) {
    return unsupported("%s: quantization_config is not fp8 in blocks of 128 x 128", where);
  }
  return {};
}

Status read_sizes(const Config& config, double eps, const IntKey& max_tokens, DecoderConfig* out) {
  VESTIGE_ASSIGN(out->n_vocab, config.integer({"vocab_size", 1, 1 << 24}));
  VESTIGE_ASSIGN(out->d_model, config.integer({"hidden_size", 1, 1 << 16}));
  VESTIGE_ASSIGN(out->d_ff, config.integer({"intermediate_size", 1, 1 << 18}));
  VESTIGE_ASSIGN(const int64_t n_layers, config.integer({"num_hidden_layers", 1, 4096}));
  out->n_layers = static_cast<int32_t>(n_layers);
  VESTIGE_ASSIGN(eps, config.real({"rms_norm_eps", 1e-12, 1.0, eps}));
  out->eps = static_cast<float>(eps);
  VESTIGE_ASSIGN(out->tied_head, config.flag("tie_word_embeddings", false));
  VESTIGE_ASSIGN(out->max_tokens, config.integer(max_tokens));
  VESTIGE_ASSIGN(const int64_t bos, config.integer({"bos_token_id", 0, out->n_vocab - 1, -1}));
  out->bos_id = static_cast<int32_t>(bos);
  VESTIGE_ASSIGN(const auto eos, config.integers({"eos_token_id", 0, out->n_vocab - 1}));
  out->eos_ids.assign(eos.begin(), eos.end());
  return {};
}

Status read_mla(const Config& config, DecoderConfig* out) {
  MlaDims& mla = out->mla;
  mla.d_model = out->d_model;
  VESTIGE_ASSIGN(mla.n_heads, config.integer({"num_attention_heads", 1, 1024}));
  VESTIGE_ASSIGN(const int64_t n_kv, config.integer({"num_key_value_heads", 1, 1024, mla.n_heads}));
  if (n_kv != mla.n_heads) {
    return unsupported("%s: num_key_value_heads = %lld, want num_attention_heads = %lld", config.where().c_str(),
                       static_cast<long long>(n_kv), static_cast<long long>(mla.n_heads));
  }
  VESTIGE_ASSIGN(mla.d_content, config.integer({"kv_lora_rank", 1, 8192}));
  VESTIGE_ASSIGN(mla.d_nope, config.integer({"qk_nope_head_dim", 1, 1024}));
  VESTIGE_ASSIGN(mla.d_branch, config.integer({"qk_rope_head_dim", 0, 1024}));
  VESTIGE_ASSIGN(mla.d_v, config.integer({"v_head_dim", 1, 1024}));
  return {};
}

}  // namespace vestige
