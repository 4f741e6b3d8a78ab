#pragma once

// The keys of a Kimi Linear config.json, and what they mean for the layers.

#include <vector>

#include "model/config.h"
#include "model/layers/kda_layer.h"
#include "model/layers/mla_layer.h"
#include "model/layers/moe.h"

namespace vestige {

struct KimiLinearConfig {
  int64_t n_vocab = 0, d_model = 0, d_ff = 0;
  int32_t n_layers = 0;
  float eps = 1e-5f;
  bool tied_head = false;
  int64_t max_tokens = 0;
  int32_t bos_id = -1;
  std::vector<int32_t> eos_ids;
  KdaDims kda;
  MlaDims mla;
  MoeDims moe;
  std::vector<bool> is_kda;    ///< [n_layers]; else MLA
  std::vector<bool> is_dense;  ///< [n_layers]; else MoE
};

/// @return DataLoss for a value out of range, Unsupported for a feature we do not compute.
Result<KimiLinearConfig> read_kimi_linear_config(const Config& config);

}  // namespace vestige
