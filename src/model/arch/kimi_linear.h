#pragma once

// Kimi Linear: three layers of Kimi Delta Attention to one of latent attention, each followed by a dense MLP or a
// mixture of experts. Published checkpoints have no positions (mla_use_nope); with mla_use_nope false the branch is
// turned by rope_theta, rope_interleave and rope_scaling as in DeepSeek-V3.
// Source: Kimi Linear technical report (arXiv:2510.26692); transformers `kimi_linear`.

#include "model/arch/decoder.h"

namespace vestige {

Result<DecoderConfig> read_kimi_linear_config(const Config& config);
Result<std::unique_ptr<Model>> load_kimi_linear(const Config& config, Weights weights, const ModelOptions& options);

}  // namespace vestige
