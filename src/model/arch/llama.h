#pragma once

// The Llama family: grouped-query attention with rotary positions in every layer, then a dense SwiGLU MLP. One decoder
// for model types llama (SmolLM2 too), mistral, qwen2 and qwen3, which differ in where they have biases, in the norm of
// queries and keys, and in what a config leaves out. A sliding window that would be in effect is refused.
// Source: Llama 3 (arXiv:2407.21783), Mistral 7B (arXiv:2310.06825), Qwen2 (arXiv:2407.10671), Qwen3
// (arXiv:2505.09388); transformers `llama`, `mistral`, `qwen2`, `qwen3`.

#include "model/arch/decoder.h"

namespace vestige {

enum class LlamaKind { kLlama, kMistral, kQwen2, kQwen3 };

Result<DecoderConfig> read_llama_config(const Config& config, LlamaKind kind);

template <LlamaKind kKind>
Result<std::unique_ptr<Model>> load_llama(const Config& config, Weights weights, const ModelOptions& options) {
  VESTIGE_ASSIGN(DecoderConfig read, read_llama_config(config, kKind));
  return load_decoder(std::move(read), std::move(weights), options);
}

}  // namespace vestige
