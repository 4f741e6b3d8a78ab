#pragma once

// A language model: its files, its layers, and one forward pass over new tokens. Files are those of the hub:
// config.json, model*.safetensors (with index), tokenizer.json or tiktoken.model; or all of it in one .gguf file.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "vestige/cache.h"
#include "vestige/device.h"
#include "vestige/layout.h"
#include "vestige/status.h"

namespace vestige {

/// What a sequence keeps of each attention layer that has rows: one cache, or one for each key-value head.
struct CacheLayer {
  int32_t layer = 0;  ///< 0-based layer number in the model
  int32_t head = -1;  ///< 0-based key-value head whose rows these are; -1 = all heads share them
  RowLayout layout;
  int32_t h_q = 0;
  float scale = 1.0f;
  KeyRotation rotation = {};  ///< of the keys in rows [value ; key]; not in files
};

struct ModelInfo {
  std::string arch;      ///< config.json's model_type: "kimi_linear", "deepseek_v2", "llama" ...
  std::string identity;  ///< SHA-256 hex over config.json and the weight files' bytes, or of the .gguf file
  int64_t n_params = 0;
  int64_t weight_bytes = 0;
  int64_t active_weight_bytes = 0;  ///< bytes of weights that one decoded token reads
  int32_t n_layers = 0, d_model = 0;
  int64_t n_vocab = 0;
  int64_t max_tokens = 0;  ///< the longest context the config declares
  int32_t bos_id = -1;
  std::vector<int32_t> eos_ids;
  std::vector<CacheLayer> cache_layers;
};

/// Fixed-size state of one sequence in the layers without rows (KDA states, convolution tails).
class ModelState {
 public:
  virtual ~ModelState() = default;
  virtual int64_t size_bytes() const = 0;
  virtual Status save(const std::string& prefix, TensorSink& sink) const = 0;
  virtual Status load(const std::string& prefix, const TensorSource& source) = 0;  ///< copies
};

/// Looks at intermediate values, for parity tests. Called with the output of the embedding (layer -1), of each
/// layer, and of the final norm (layer = n_layers); hidden [t, d_model] f32, valid during the call.
using HiddenTap = std::function<void(int32_t layer, const ConstTensorView& hidden)>;

/// The sequence's side of a forward pass.
struct ForwardParams {
  std::span<const int32_t> tokens;  ///< t >= 1 new tokens, each in [0, n_vocab)
  int64_t position = 0;             ///< tokens before these
  ModelState* state = nullptr;
  std::span<LayerCache* const> caches;  ///< one per ModelInfo::cache_layers
  /// true: dense causal attention over every row (reading a document); t is at most Model::kTileTokens. Passes that
  /// begin at multiples of it give bytes that do not depend on how the text was cut.
  /// false: decode; each token attends through LayerCache::attend.
  bool prefill = false;
  StepRecord* record = nullptr;  ///< decode only; may be null
  /// Prefill only, may be empty: per cache layer, the un-absorbed queries [t, h_q, d] f32, dense (those of latent
  /// attention d_nope + d_branch wide, branches rotated in models with rotary positions; those of grouped queries as
  /// they meet the keys) are handed over so that the engine can keep the last ones for fit_recall.
  std::function<void(size_t cache_index, const ConstTensorView& q)> query_tap;
  HiddenTap hidden_tap;    ///< may be empty
  TensorView last_hidden;  ///< [d_model] f32, out: final-normed hidden of the last token
};

struct ModelOptions {
  DType row_dtype = DType::kBF16;  ///< kBF16, or kF32 for parity work
};

/// Weights and forward pass. Immutable and shared by sequences; forward() uses the stream's threads.
class Model {
 public:
  static constexpr int64_t kTileTokens = 2048;
  /// @param dir a folder, or a file ending in .gguf
  /// @return NotFound, DataLoss (a damaged file, named), Unsupported (an architecture or feature, named).
  static Result<std::unique_ptr<Model>> load(const std::string& dir, const ModelOptions& options);
  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;
  virtual Result<std::unique_ptr<ModelState>> create_state() const = 0;
  virtual Status forward(const ForwardParams& params, Stream& stream) const = 0;
  /// logits [n_vocab] f32 of a final-normed hidden [d_model].
  virtual Status logits(const ConstTensorView& hidden, const TensorView& logits, Stream& stream) const = 0;
  /// Absorbs prefill queries of one cache layer: [n, h_q, d] -> [n, h_q, d_row]. Grouped queries get a content part of
  /// zeros.
  virtual Status absorb(size_t cache_index, const ConstTensorView& q, const TensorView& absorbed,
                        Stream& stream) const = 0;
  /// How much a change of content moves what one cache layer's heads make of it. Latent rows: their values, gram = sum
  /// over heads of W_UV^T W_UV, so that |values(c + e) - values(c)|^2 summed over the heads is e^T gram e. Grouped
  /// queries, whose content is the value itself: the layer's output, sum over the heads of W_O^T W_O.
  /// @param gram [d_content, d_content] f32, contiguous, out; symmetric to the bit
  virtual Status value_gram(size_t cache_index, const TensorView& gram, Stream& stream) const = 0;
};

}  // namespace vestige
