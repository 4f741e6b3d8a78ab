#pragma once

// Kimi Linear: three layers of Kimi Delta Attention to one of latent attention without positions, each followed
// by a dense MLP or a mixture of experts.
// Source: Kimi Linear technical report (arXiv:2510.26692); transformers `kimi_linear`.

#include <memory>

#include "model/config.h"
#include "model/weights.h"
#include "vestige/model.h"

namespace vestige {

Result<std::unique_ptr<Model>> load_kimi_linear(const Config& config, Weights weights, const ModelOptions& options);

}  // namespace vestige
