#pragma once

// A cache policy decides two things, per sequence and layer: which closed rows stay attended, and which
// archived rows join one decode step. It sees rows, never a model.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vestige/device.h"
#include "vestige/layout.h"
#include "vestige/ops.h"
#include "vestige/status.h"

namespace vestige {

/// Settings every policy has, and the policy's own as name = value pairs.
struct PolicyConfig {
  std::string name = "vestige";  ///< a name from policy_names()
  int32_t block_rows = 4096;     ///< rows of a block, in [64, 1 << 20]; the open tail is never compressed
  double ratio = 32;             ///< closed rows per kept row, >= 1; 1 keeps every row
  int32_t n_sinks = 4;           ///< first rows of the sequence, always kept, beyond the ratio; in [0, block_rows]
  uint64_t seed = 0;             ///< of policies that draw at random
  std::map<std::string, double> settings;  ///< the policy's own; names and ranges in PolicyInfo::settings
};

/// One setting of a policy; CLI, help and docs read this list.
struct PolicySetting {
  const char* name;
  double default_value, min, max;  ///< range is closed
  const char* sentence;            ///< what it does
  /// Names of the values 0, 1, ...; empty for a number. The tools read and print the name, files hold the number.
  std::vector<const char*> choices = {};
};

struct PolicyInfo {
  const char* name;
  const char* sentence;
  const char* source;  ///< paper, equation
  std::vector<PolicySetting> settings;
  /// Whether `ratio` says how much is kept. Else only its value 1 counts, which keeps every row: bytes follow from the
  /// settings, or every row is kept anyway.
  bool takes_ratio = true;
};

/// A store of named tensors: what a recall index saves into and loads from. Implemented by the file format.
class TensorSink {
 public:
  virtual ~TensorSink() = default;
  /// The bytes are copied or written before the call returns.
  virtual Status put(const std::string& name, const ConstTensorView& value) = 0;
  /// One tensor, given as parts [n_i, ...] to be laid end to end along dimension 0; at least one part, all
  /// contiguous. Default: copies them together and calls put(); a file overrides it to write them one by one.
  virtual Status put_rows(const std::string& name, std::span<const ConstTensorView> parts);
};
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  /// A view into memory that outlives whatever is loaded from it. NotFound if absent; DataLoss if the stored
  /// dtype or shape is not the one wanted (-1 = any).
  virtual Result<ConstTensorView> get(const std::string& name, DType dtype, std::vector<int64_t> shape) const = 0;
};

/// What the caches of one layer (grouped queries: one a key-value head), or of all layers, share while their indexes
/// are fitted together, a budget say. The policy's own; nobody else looks inside.
class LayerFit {
 public:
  virtual ~LayerFit() = default;
};

/// What a recall index is fitted to, at the end of a prefill.
struct RecallFit {
  ConstTensorView queries;        ///< [n, h, d_row] f32: absorbed queries of the prompt's last n tokens
  int64_t first_position = 0;     ///< position of queries[0]; query i may see rows <= first_position + i
  RowPages rows;                  ///< all rows of the sequence, tail included
  int64_t n_closed = 0;           ///< rows that are closed; the index covers these
  const uint8_t* kept = nullptr;  ///< [n_closed], 1 = kept
  float scale = 1.0f;
  /// [d_content, d_content] f32: what a change of content does, Model::value_gram, relative to the energy of the stream
  /// that the layer's output is added to (as a power of two; known while a document is read). May be empty.
  ConstTensorView value_gram = {};
  /// Of the caches fitted together; null: this one is fitted by itself.
  LayerFit* layer = nullptr;
};

/// A block that closed after rows were dropped (RecallIndex::replaces_rows), and what is left of the exact rows.
struct ClosedBlock {
  RowPages rows;                      ///< the block's
  int64_t first_row = 0;              ///< position of the first of them; [0, first_row + rows.n_rows) are closed now
  RowPages held;                      ///< exact copies of the earlier rows that were kept until now
  std::span<const int32_t> held_ids;  ///< their positions, ascending
  std::span<const int32_t> kept_ids;  ///< rows kept from now on, ascending: each is among `held` or `rows`
};

/// Rows that a step attends by their code (mode through), filled by the index.
struct CodedPart {
  TensorView out;      ///< [1, h, d_content] f32
  TensorView lse;      ///< [1, h] f32, -inf where there is no such row
  TensorView error;    ///< [1, h, 3] f32, as AttendCodesParams::error
  TensorView n_coded;  ///< [1] i64
  /// [1, h] f32, out: >= || the step's output - exact output ||_2, kept and tail rows included, which takes the place
  /// of `error`. Set to NaN before the call: `error` is all there is.
  TensorView bound;
};

/// What rows stand for in a step, for measurements (LayerCache::rebuild).
struct RebuiltRows {
  TensorView rows;    ///< [n, d_row] f32: content then branch, keys as they lie in the cache
  TensorView finely;  ///< [n] u8: 1 where the code says more of the row than of most (an anchor, a key with a residual)
};

/// The rows a step wants from the archive.
struct RecallStep {
  ConstTensorView q;              ///< [1, h, d_row] f32
  ConstTensorView kept_max;       ///< [1, h] f32: best true score over the kept rows
  ConstTensorView kept_lse;       ///< [1, h] f32: log-sum-exp over the kept rows
  ConstTensorView attended_lse;   ///< [1, h] f32: log-sum-exp over kept and tail rows, for policies that admit by mass
  ConstTensorView attended = {};  ///< [1, h, d_content] f32: attention output over those rows
  RowPages rows;                  ///< the closed rows; once they are dropped none, and no tables
  int64_t n_closed = 0;           ///< dropped ones included
  const uint8_t* kept = nullptr;  ///< [n_closed], 1 = kept; null once rows are dropped
  std::span<const int32_t> kept_ids = {};  ///< the kept rows' positions, ascending
  RowPages kept_rows = {};                 ///< the kept rows, side by side
  float scale = 1.0f;
  TensorView ids;      ///< [1, capacity] i32, out, ascending
  TensorView n_ids;    ///< [1] i32, out
  TensorView n_fired;  ///< [1] i32, out; > capacity: the cache attends the whole archive instead
  /// [1, h] f32, out: certified bound on the sum of exp(score - attended_lse) over the rows that are left out. Set to
  /// NaN before the call: no bound is known.
  TensorView omitted;
  TensorView n_stage;       ///< [1, 2] i64, out: codes read, by stage; zero before the call
  TensorView n_gated = {};  ///< [1] i32, out: heads that did not look for rows; zero before the call
};

/// Index of one sequence and layer over its closed rows. Not thread-safe.
class RecallIndex {
 public:
  virtual ~RecallIndex() = default;
  /// First half of a fit() together with the layer's other caches: called for each of them, in the order of heads, with
  /// fit.layer set, before the fit() of any; the same is handed to fit() then. Changes nothing else. Default: nothing.
  virtual Status prepare_fit(const RecallFit& fit, Stream& stream);
  /// Builds everything anew from the prompt's own queries. May be called again.
  virtual Status fit(const RecallFit& fit, Stream& stream) = 0;
  /// Adds the rows from the last one indexed up to n_closed, all closed, with what the last fit() set. Which rows are
  /// kept is not part of the index: recall() is told each time.
  virtual Status extend(const RowPages& rows, int64_t n_closed, Stream& stream) = 0;
  virtual Status recall(const RecallStep& step, Stream& stream) = 0;
  /// Whether rows that recall() does not fetch join the softmax by their code. Default: no.
  virtual bool attends_codes() const { return false; }
  /// After recall() of the same step, if attends_codes(): the rows neither kept nor fetched. Default: none.
  virtual Status attend_codes(const RecallStep& step, const CodedPart& part, Stream& stream);
  /// Writes those of the n_closed rows that attend_codes() attends, and leaves the others as they are; after recall().
  /// Default: Unsupported.
  virtual Status rebuild(const RebuiltRows& out, Stream& stream) const;
  /// Whether closed rows that are not kept are attended by their code alone from now on, for good. After a fit() or a
  /// step that leaves this true the cache drops them from memory and file. From then on fit() and extend() are not
  /// called, blocks come to extend_dropped(), and recall() may name no row. Default: no, rows stay.
  virtual bool replaces_rows() const { return false; }
  /// Adds one block once rows are dropped: its rows, and those of `held` that are kept no longer, are seen here for the
  /// last time. After an error the index is as it was, and the call comes again.
  virtual Status extend_dropped(const ClosedBlock& block, Stream& stream);
  /// >= ||content||_2 of every indexed row, for the bound on the output error.
  virtual float max_content_norm() const { return 0; }
  /// Most rows one recall() may ask for: the capacity of RecallStep::ids. Fixed, >= 1.
  virtual int64_t max_recall() const = 0;
  /// Bytes of the index in memory, the branch not counted (it is read in place from the rows).
  virtual int64_t size_bytes() const = 0;
  /// Bytes read by one recall() over n_closed rows, for the step record, and for each code of a second stage.
  virtual int64_t scan_bytes(int64_t n_closed) const = 0;
  virtual int64_t second_bytes() const { return 0; }
  virtual Status save(const std::string& prefix, TensorSink& sink) const = 0;
  virtual Status load(const std::string& prefix, const TensorSource& source, int64_t n_closed) = 0;
};

/// Scores the closed rows of one sequence and layer by the attention that queries paid to them: the prompt's own at
/// the end of a prefill, or others handed to LayerCache::observe. Not thread-safe.
class PromptScorer {
 public:
  virtual ~PromptScorer() = default;
  /// Absorbed queries of tokens first_position .. first_position + n - 1, in order, each once.
  /// @param queries [n, h, d_row] f32; query i sees rows <= first_position + i of `rows`
  virtual Status add(const ConstTensorView& queries, int64_t first_position, const RowPages& rows, float scale,
                     Stream& stream) = 0;
  /// @param score [n_closed] f32, out: higher = keep
  virtual Status finish(const RowPages& closed, const TensorView& score, Stream& stream) = 0;
};

/// How many rows each of several caches keeps, where those of a layer, or of all layers, share what they may keep
/// together. Made for one choice: add() for each cache in the order of layers and heads, then n_keep() of each.
class KeepBudget {
 public:
  virtual ~KeepBudget() = default;
  /// One cache more.
  /// @param score  [n_closed] f32 of its closed rows, as PromptScorer::finish gave them; outlives this object
  /// @param n_keep what it would keep by itself: CachePolicy::n_keep; the same for all of them
  /// @param layer  place of its layer among those that share, from 0
  /// @return its number, for n_keep()
  virtual Result<size_t> add(const ConstTensorView& score, int64_t n_keep, int32_t layer) = 0;
  /// Rows that cache keeps, sinks not counted: in [0, n_closed]. No add() comes after it.
  virtual int64_t n_keep(size_t number) = 0;
};

/// Whose queries a PromptScorer wants.
enum class ObservedQueries : uint8_t {
  kNone,    ///< the policy has no scorer
  kPrompt,  ///< the document's own, the last CachePolicy::n_observed() of them
  kRepeat,  ///< those of a second pass in which the model repeats the document (KVzip)
  kGiven,   ///< whoever calls LayerCache::observe hands them over (oracle: evaluation only)
};

/// Stateless and shared by all sequences and layers; thread-safe.
class CachePolicy {
 public:
  virtual ~CachePolicy() = default;
  virtual const PolicyConfig& config() const = 0;
  /// Rows kept of n_closed, sinks not counted; in [0, n_closed], non-decreasing. Default: round(n / ratio), at least 1.
  /// Where caches share a KeepBudget: what each would keep by itself.
  virtual int64_t n_keep(int64_t n_closed) const;
  /// Score of each row of one closed block, higher = keep; fixed once computed.
  /// @param branch, content  [block_rows, d] of the row dtype; empty branch if the layout has none
  /// @param first_position   position of the block's first row
  virtual Status score_block(const ConstTensorView& content, const ConstTensorView& branch, int64_t first_position,
                             const TensorView& score, Stream& stream) const = 0;
  /// Whether a row's score is its position: the sinks and the last rows are kept. A file is held to it. Default: no.
  virtual bool scores_by_position() const { return false; }
  virtual ObservedQueries observes() const;
  /// Tokens, counted from the document's end, whose queries the scorer wants; INT64_MAX = all of them.
  virtual int64_t n_observed() const;
  /// Null if observes() is kNone. Rows closed after its finish() keep the score of score_block.
  virtual std::unique_ptr<PromptScorer> create_scorer(const RowLayout& layout, int32_t h_q) const;
  /// Null: rows that are not kept stay out for good.
  /// @param rotation of the layer's keys
  virtual std::unique_ptr<RecallIndex> create_index(const RowLayout& layout, const KeyRotation& rotation = {}) const;
  /// For one fit of caches together. Null: they are fitted each by itself.
  virtual std::unique_ptr<LayerFit> create_layer_fit() const;
  /// For one choice of rows by caches together, after a document. Null: each keeps n_keep() of its own.
  virtual std::unique_ptr<KeepBudget> create_keep_budget() const;
  /// Whether all layers of a sequence share one such fit, and one such budget, not each layer's caches their own.
  /// Default: no.
  virtual bool fits_layers_together() const { return false; }
  /// Bytes that the code of an archived row takes, where codes stand for archived rows for good (for a plan, before
  /// there are any). Default: 0, there are no such codes.
  virtual double coded_row_bytes(const RowLayout& layout) const;
};

/// Every policy of this build, in registry order.
std::vector<PolicyInfo> policy_infos();

/// @return InvalidArgument naming the field, its value and its range (an unknown policy or setting too);
///         Unsupported if the policy needs a branch and `layout` has none, or codes keys and values and it has none.
Result<std::shared_ptr<const CachePolicy>> create_policy(const PolicyConfig& config, const RowLayout& layout);

}  // namespace vestige
