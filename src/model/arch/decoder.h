#pragma once

// A decoder of layers, each an attention (KDA with a fixed state, or latent or grouped-query attention with cached
// rows) and then a feed-forward (a dense MLP, or a mixture of experts). What an architecture adds is how its
// config.json names these.

#include <memory>

#include "model/arch/decoder_config.h"
#include "model/weights.h"
#include "vestige/model.h"

namespace vestige {

Result<std::unique_ptr<Model>> load_decoder(DecoderConfig config, Weights weights, const ModelOptions& options);

}  // namespace vestige
