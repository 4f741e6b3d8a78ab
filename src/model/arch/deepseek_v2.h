#pragma once

// DeepSeek-V2: latent attention with rotated branches in every layer, then a dense MLP or a mixture of experts with a
// softmax router. topk_method "group_limited_greedy" (the 236B model) is refused.
// Source: DeepSeek-V2 technical report (arXiv:2405.04434); transformers `deepseek_v2`.

#include "model/arch/decoder.h"

namespace vestige {

Result<DecoderConfig> read_deepseek_v2_config(const Config& config);
Result<std::unique_ptr<Model>> load_deepseek_v2(const Config& config, Weights weights, const ModelOptions& options);

}  // namespace vestige
