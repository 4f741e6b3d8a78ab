#pragma once

// A document read once, kept as a Context, saved to a .vctx file, and asked many times.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vestige/cache.h"
#include "vestige/device.h"
#include "vestige/model.h"
#include "vestige/policy.h"
#include "vestige/status.h"
#include "vestige/tokenizer.h"

namespace vestige {

struct EngineOptions {
  std::string model_dir;
  StreamOptions stream;
  ModelOptions model;
};

/// A loaded model, its tokenizer and one stream. One caller at a time.
class Engine {
 public:
  static Result<std::unique_ptr<Engine>> create(const EngineOptions& options);
  const Model& model() const { return *model_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  Stream& stream() { return *stream_; }
  const std::string& model_dir() const { return model_dir_; }

 private:
  Engine() = default;
  std::string model_dir_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

/// Called now and then during long work; returns false to stop it (the work then returns Cancelled).
using ProgressFn = std::function<bool(int64_t n_done, int64_t n_total)>;

/// A .vctx file, opened and checked: format, version, structure and every checksum. Rows are read with pread
/// for the check, so that no archive page is mapped in before it is recalled. Shared by contexts.
class ContextFile {
 public:
  /// @param progress counts bytes checked.
  /// @return NotFound, IoError, DataLoss (cut or damaged, naming what), Unsupported (a newer version), Cancelled.
  static Result<std::shared_ptr<const ContextFile>> open(const std::string& path, const ProgressFn& progress = {});
  virtual ~ContextFile() = default;
  virtual const std::string& path() const = 0;
  virtual int64_t size_bytes() const = 0;
  virtual int64_t n_tokens() const = 0;
  virtual const PolicyConfig& policy() const = 0;
  virtual const std::string& model_identity() const = 0;
  /// Absolute, as of when the file was made, perhaps empty; a hint only.
  virtual const std::string& model_dir() const = 0;
  virtual const std::string& tokenizer_identity() const = 0;
  virtual const std::string& vestige_version() const = 0;  ///< of the build that made it
  virtual const std::vector<CacheLayer>& cache_layers() const = 0;
  virtual const TensorSource& tensors() const = 0;
};

struct LoadOptions {
  /// Another policy over the file's rows, which are all there (unless the file's policy drops rows: refused).
  std::optional<PolicyConfig> policy;
  /// Of the second pass over the document that some of these policies make (kvzip).
  ProgressFn progress = {};
};

/// What a context keeps beyond what its policy needs.
struct ContextOptions {
  /// Tokens, counted from the document's end, whose queries stay in memory after finish_reading() for fork():
  /// 0 = none, INT64_MAX = all.
  int64_t n_kept_queries = 0;
};

/// One sequence: tokens read so far, one LayerCache per attention layer, and the model's fixed state.
/// A read(), finish_reading() or feed() that fails within a pass (out of memory, Internal) leaves the context
/// unusable: these, logits() and save() then return InvalidArgument. Refused arguments and Cancelled do not.
class Context {
 public:
  static Result<std::unique_ptr<Context>> create(Engine& engine, const PolicyConfig& policy,
                                                 const ContextOptions& options = {});
  /// Another context that stands where this one does, under `policy`: the same bytes as reading the document anew. Row
  /// memory is shared: closed blocks are views of this context's, which must outlive the fork; tail and state are
  /// copies. Needs finish_reading() or extend(), and nothing fed since. What the fork's policy drops stays here.
  /// @return InvalidArgument if the policy (its index or scorer) wants more of the prompt's queries than were kept;
  ///         Unsupported if this context's policy has dropped the exact rows (LayerCache::rows_dropped)
  virtual Result<std::unique_ptr<Context>> fork(const PolicyConfig& policy) const = 0;
  /// Many contexts may be loaded from one file. Row and index memory are views of its mapping.
  /// @return Mismatch, naming both identities, if the file was made with another model or tokenizer; Unsupported if
  ///         options.policy's index or scorer is fitted to the prompt's queries, which the file does not hold, or if
  ///         the file's own policy has dropped the exact rows.
  static Result<std::unique_ptr<Context>> load(Engine& engine, std::shared_ptr<const ContextFile> file,
                                               const LoadOptions& options = {});
  virtual ~Context() = default;

  /// Reads document tokens with dense attention. May be called many times with pieces of any size: bytes come
  /// out the same, since whole tiles are computed at fixed positions and a remainder waits for finish_reading().
  /// @return InvalidArgument if the model's max_tokens would be passed or a token id is out of range, nothing read
  ///         then; Cancelled, after which read({}) goes on with what was given.
  virtual Status read(std::span<const int32_t> tokens, const ProgressFn& progress) = 0;
  /// Ends the document (InvalidArgument if it is empty): computes the remainder and fits the recall index to the
  /// last queries, layer after layer; a policy whose index replaces rows drops those of a layer before the next is
  /// fitted. Cancelled: call it again; the document takes no further tokens.
  virtual Status finish_reading(const ProgressFn& progress) = 0;

  /// Reads on behind a finished document, with dense attention over all rows: rows, states and kept rows become those
  /// of having read everything at once, bit for bit on the cpu backend if the document and the new part have more than
  /// 8 tokens each, to rounding else. Scores of prompt scorers stay as they are. A recall index is fitted anew if the
  /// part has at least 1,024 tokens, and else takes new closed rows with its present fit. Tokens fed before stay as
  /// they are. Once rows are dropped (LayerCache::rows_dropped) there is nothing dense attention could read: the part
  /// then goes as feed() does, slower and attending codes. Needs finish_reading().
  /// @return as read(); after Cancelled extend({}) goes on, and until then nothing else does.
  virtual Status extend(std::span<const int32_t> tokens, const ProgressFn& progress) = 0;

  /// Feeds tokens in decode form, with the bits of one by one: through kept, tail and recalled rows.
  /// Needs finish_reading().
  virtual Status feed(std::span<const int32_t> tokens, StepRecord* record) = 0;
  /// Logits [n_vocab] f32 after the last token; computed on first call. InvalidArgument before any token.
  virtual Result<std::span<const float>> logits() = 0;

  virtual int64_t n_tokens() const = 0;
  virtual std::span<const int32_t> tokens() const = 0;
  virtual std::span<LayerCache* const> caches() const = 0;
  virtual int64_t state_bytes() const = 0;

  /// Writes a .vctx beside `path` and renames it into place. Needs finish_reading().
  virtual Status save(const std::string& path, const ProgressFn& progress) const = 0;
};

struct GenerateOptions {
  int32_t n_tokens = 32;     ///< at most; >= 0
  float temperature = 0.0f;  ///< 0 = greedy (ties: the lower id); else softmax sampling
  uint64_t seed = 0;
  std::vector<std::string> stop;  ///< ends when the text contains one; the stop text is cut off
  /// Called with each new piece of text (whole UTF-8 characters); false stops.
  std::function<bool(std::string_view piece)> on_text;
};

struct GenerateResult {
  std::string text;
  std::vector<int32_t> tokens;
  std::string finish_reason;  ///< "stop" (stop text or end token), "length" (or the window is full), "cancelled"
  StepRecord record;          ///< of the generated tokens' steps
  StepRecord worst;           ///< the step (its layers added up) that recalled most
  double decode_s = 0;        ///< wall time of the generated tokens
};

/// Generates from the context as it stands, and leaves it advanced by the generated tokens.
Result<GenerateResult> generate(Engine& engine, Context& context, const GenerateOptions& options);

}  // namespace vestige
