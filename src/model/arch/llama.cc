#include "model/arch/llama.h"

#include <cmath>

namespace vestige {

namespace {

/// What transformers takes where config.json says nothing.
struct Defaults {
  const char* arch;
  int64_t max_tokens;
  int64_t n_kv;           ///< 0 = as many as query heads
  int64_t d_head;         ///< 0 = hidden_size / num_attention_heads
  int64_t window;         ///< sliding_window; 0 = none
  bool window_is_a_flag;  ///< in effect only if use_sliding_window
  bool biases_are_a_key;  ///< attention_bias puts one on q, k, v and o
};

constexpr Defaults defaults_of(LlamaKind kind) {
  switch (kind) {
    case LlamaKind::kLlama:
      return {"llama", 2048, 0, 0, 0, false, true};
    case LlamaKind::kMistral:
      return {"mistral", 131072, 8, 0, 4096, false, false};
    case LlamaKind::kQwen2:
      return {"qwen2", 32768, 32, 0, 4096, true, false};
    case LlamaKind::kQwen3:
      return {"qwen3", 32768, 32, 128, 4096, true, true};
  }
  return {};
}

/// Layers that see only the last rows would need the others left out of every part.
Status refuse_window(const Config& config, const Defaults& defaults, int64_t max_tokens) {
  const char* where = config.where().c_str();
  VESTIGE_ASSIGN(const auto types, config.texts("layer_types"));
  for (const std::string& type : types) {
    if (type != "full_attention") {
      return unsupported("%s: layer_types holds \"%.40s\", want \"full_attention\" alone", where, type.c_str());
    }
  }
  if (defaults.window == 0) return {};
  if (defaults.window_is_a_flag) {
    VESTIGE_ASSIGN(const bool used, config.flag("use_sliding_window", false));
    return used ? unsupported("%s: use_sliding_window = true", where) : Status();
  }
  if (config.is_null("sliding_window")) return {};
  VESTIGE_ASSIGN(const int64_t window, config.integer({"sliding_window", 1, int64_t{1} << 31, defaults.window}));
  if (window >= max_tokens) return {};
  return unsupported("%s: sliding_window = %lld below max_position_embeddings = %lld, want null", where,
                     static_cast<long long>(window), static_cast<long long>(max_tokens));
}

/// head_dim, or what it is without.
Result<int64_t> read_head_width(const Config& config, int64_t absent, const DecoderConfig& sizes, int64_t n_heads) {
  constexpr int64_t kMost = 1024;
  if (config.has("head_dim") || absent > 0) return config.integer({"head_dim", 1, kMost, absent});
  if (sizes.d_model % n_heads != 0 || sizes.d_model / n_heads > kMost) {
    return data_loss("%s: hidden_size = %lld, want a multiple of num_attention_heads = %lld, at most %lld times it",
                     config.where().c_str(), static_cast<long long>(sizes.d_model), static_cast<long long>(n_heads),
                     static_cast<long long>(kMost));
  }
  return sizes.d_model / n_heads;
}

Status read_attention(const Config& config, LlamaKind kind, const Defaults& defaults, DecoderConfig* out) {
  GqaDims& gqa = out->gqa;
  gqa.d_model = out->d_model;
  gqa.eps = out->eps;
  VESTIGE_ASSIGN(gqa.n_heads, config.integer({"num_attention_heads", 1, 1024}));
  const bool all = defaults.n_kv == 0 || config.is_null("num_key_value_heads");
  VESTIGE_ASSIGN(gqa.n_kv, config.integer({"num_key_value_heads", 1, gqa.n_heads, all ? gqa.n_heads : defaults.n_kv}));
  if (gqa.n_heads % gqa.n_kv != 0) {
    return data_loss("%s: num_key_value_heads = %lld, want a divisor of num_attention_heads = %lld",
                     config.where().c_str(), static_cast<long long>(gqa.n_kv), static_cast<long long>(gqa.n_heads));
  }
  VESTIGE_ASSIGN(gqa.d_head, read_head_width(config, defaults.d_head, *out, gqa.n_heads));
  if (defaults.biases_are_a_key) {
    VESTIGE_ASSIGN(gqa.o_bias, config.flag("attention_bias", false));
    gqa.qkv_bias = gqa.o_bias;
  }
  if (kind == LlamaKind::kQwen2) gqa.qkv_bias = true;
  gqa.qk_norm = kind == LlamaKind::kQwen3;
  VESTIGE_ASSIGN(gqa.rotation, read_gqa_rotation(config, gqa.d_head, out->max_tokens));
  return refuse_window(config, defaults, out->max_tokens);
}

}  // namespace

Result<DecoderConfig> read_llama_config(const Config& config, LlamaKind kind) {
  const Defaults defaults = defaults_of(kind);
  DecoderConfig out;
  out.arch = defaults.arch;
  out.is_gqa = true;
  VESTIGE_TRY(refuse_common(config, {"mlp_bias"}));
  VESTIGE_TRY(read_sizes(config, 1e-6, {"max_position_embeddings", 1, int64_t{1} << 31, defaults.max_tokens}, &out));
  VESTIGE_TRY(read_attention(config, kind, defaults, &out));
  out.is_kda.assign(static_cast<size_t>(out.n_layers), false);
  out.is_dense.assign(static_cast<size_t>(out.n_layers), true);
  return out;
}

}  // namespace vestige
