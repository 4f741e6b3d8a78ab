#pragma once

// What config.json means for the layers of a decoder, and the keys that architectures share.

#include <string>
#include <vector>

#include "model/config.h"
#include "model/layers/gqa_layer.h"
#include "model/layers/kda_layer.h"
#include "model/layers/mla_layer.h"
#include "model/layers/moe.h"

namespace vestige {

struct DecoderConfig {
  std::string arch;        ///< ModelInfo::arch
  std::string moe_prefix;  ///< of a layer's mixture of experts, after "model.layers.N."
  int64_t n_vocab = 0, d_model = 0, d_ff = 0;
  int32_t n_layers = 0;
  float eps = 1e-5f;
  bool tied_head = false;
  int64_t max_tokens = 0;
  int32_t bos_id = -1;
  std::vector<int32_t> eos_ids;
  KdaDims kda;
  MlaDims mla;
  GqaDims gqa;
  MoeDims moe;
  bool is_gqa = false;         ///< layers with rows are GQA; else MLA
  std::vector<bool> is_kda;    ///< [n_layers]; the others have rows
  std::vector<bool> is_dense;  ///< [n_layers]; else MoE
};

// The readers return DataLoss for a value out of range, Unsupported for a feature we do not compute.

/// Features that would change the numbers and that no architecture here has.
/// @param biases  keys of biases that are refused if true
Status refuse_common(const Config& config, std::initializer_list<const char*> biases = {"attention_bias", "mlp_bias"});
/// Sizes, token ids and limits. @param eps what rms_norm_eps is when absent. @param max_tokens the key of that limit.
Status read_sizes(const Config& config, double eps, const IntKey& max_tokens, DecoderConfig* out);
/// Heads and widths of latent attention; not q_lora_rank, not the rotation.
Status read_mla(const Config& config, DecoderConfig* out);
/// The position embedding of latent attention: rope_theta, and rope_parameters or rope_scaling of type default or yarn.
Result<Rotation> read_rotation(const Config& config, int64_t d_branch, int64_t max_tokens);
/// That of grouped-query attention: type default, linear, llama3, or factors (a GGUF file's);
/// pairs one half apart unless rope_interleave.
Result<Rotation> read_gqa_rotation(const Config& config, int64_t d_head, int64_t max_tokens);

}  // namespace vestige
