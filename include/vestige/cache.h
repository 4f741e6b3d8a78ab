#pragma once

// The rows of one sequence in one attention layer: closed blocks, of which some rows are kept (attended at
// every step, in a contiguous arena) and all others archived (exact, attended when recalled), and the open
// tail (attended). kept + archive + tail are a partition of the rows at all times.
// Where the policy's index replaces rows by codes (RecallIndex::replaces_rows), archived rows are *dropped* once it has
// them, at the end of fit_recall() or of a step: only their codes are left, in memory and in what save() writes.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "vestige/device.h"
#include "vestige/layout.h"
#include "vestige/policy.h"
#include "vestige/status.h"

namespace vestige {

/// What one decode step did in one layer; sums over steps and layers are the numbers every tool prints.
struct StepRecord {
  int64_t n_steps = 0;            ///< layer-steps added up in this record
  int64_t n_kept = 0;             ///< kept rows attended
  int64_t n_tail = 0;             ///< tail rows attended
  int64_t n_archived = 0;         ///< rows in the archive
  int64_t n_recalled = 0;         ///< archived rows attended
  int64_t n_coded = 0;            ///< archived rows attended by their code (mode through)
  int64_t n_overflowed = 0;       ///< layer-steps in which the whole archive was attended instead
  int64_t n_gated = 0;            ///< heads of these layer-steps that did not look for archived rows (entropy gate)
  int64_t n_scanned[2] = {0, 0};  ///< codes read, by stage of the index
  int64_t read_bytes = 0;         ///< rows and index bytes read
  int64_t archive_bytes = 0;      ///< of those: index bytes and exact rows read for the archive
  int64_t full_bytes = 0;         ///< bytes that attention over every row would read
  /// Certified upper bound on the share of a head's softmax mass that was left out: the largest over heads and
  /// steps, and the sum over layer-steps of the mean over heads. 0 where nothing is left out; 1 where no bound is
  /// known.
  double omitted_max = 0, omitted_sum = 0;
  /// Mode through: certified upper bound on || out - exact out ||_2 / max || content ||_2, likewise.
  double error_max = 0, error_sum = 0;
  int64_t n_capped = 0;  ///< heads of these layer-steps for which that bound is the trivial one: nothing is known
  double attend_us = 0;  ///< time in attention (wall), scan and merge included
  void add(const StepRecord& other);
};

class LayerCache {
 public:
  /// @param scale attention scale, > 0. @param h_q query heads, >= 1.
  /// @param rotation of the keys in rows [value ; key]: CacheLayer::rotation
  static Result<std::unique_ptr<LayerCache>> create(const RowLayout& layout, int32_t h_q, float scale,
                                                    std::shared_ptr<const CachePolicy> policy,
                                                    KeyRotation rotation = {});
  virtual ~LayerCache() = default;

  /// Room for `n` new rows at the end: views to write into, content [n, d_content] and branch [n, d_branch].
  /// n may not cross a block border (see rows_until_close). The rows count once written: call commit(n).
  virtual Status reserve(int64_t n, TensorView* content, TensorView* branch) = 0;
  /// Makes the reserved rows part of the tail and closes the block if it is full: scores it, picks the kept
  /// rows anew over all closed rows, and extends the index if there is one.
  virtual Status commit(int64_t n, Stream& stream) = 0;
  virtual int64_t rows_until_close() const = 0;

  /// Appends n f32 rows [n, d_row] (rounded to the layout's dtype), crossing block borders as needed.
  virtual Status append(const ConstTensorView& rows, Stream& stream) = 0;
  /// The same with the parts apart: content [n, d_content] and branch [n, d_branch] f32, row strides free.
  /// @param branch  empty if d_branch = 0
  virtual Status append(const ConstTensorView& content, const ConstTensorView& branch, Stream& stream) = 0;

  /// Takes all rows of `from`, of the same layout, into this empty cache: bits, scores and kept rows are those of
  /// appending them. Closed blocks stay where they are, as views of the closed rows of `from`, whose memory must
  /// outlive this cache (for a loaded `from`: the memory of its source); where blocks of another size do not fit, and
  /// in the tail, rows are copied. Rows that this cache drops later stay in `from`.
  /// @return Unsupported if `from` has dropped rows
  virtual Status share_rows(const LayerCache& from, Stream& stream) = 0;

  /// Hands queries to the policy's scorer (PromptScorer::add); a no-op for policies without one. After the last call,
  /// rescore() picks the kept rows anew.
  /// @param queries [n, h_q, d_row] f32 absorbed (content part 0 where it is not scored), of tokens first_position ..
  /// first_position + n - 1
  /// @return Unsupported, if there is a scorer and rows are dropped
  virtual Status observe(const ConstTensorView& queries, int64_t first_position, Stream& stream) = 0;
  /// Ends the scorer: its scores replace those of the closed rows. A no-op if nothing was observed.
  /// @param budget null, or what prepare_rescore() of this and the other caches was given: it says how many rows are
  /// kept. As many times more, or fewer, than the policy's own number are kept when blocks close later, too.
  virtual Status rescore(Stream& stream, KeepBudget* budget = nullptr) = 0;
  /// For policies whose caches share a budget of kept rows (CachePolicy::create_keep_budget): called for each of them,
  /// in the order of layers and heads, before rescore() of any. A no-op if nothing was observed.
  /// @param layer as in KeepBudget::add
  virtual Status prepare_rescore(KeepBudget& budget, int32_t layer, Stream& stream) = 0;

  /// Fits the recall index to the prompt's last queries; a no-op for policies without one.
  /// @param queries [n, h_q, d_row] f32 absorbed; the last query is that of the last row.
  /// @param value_gram [d_content, d_content] f32 or empty: RecallFit::value_gram
  /// @param layer null, or what prepare_fit() of this and the layer's other caches was given; it outlives their fits
  /// @return Unsupported if rows are dropped
  virtual Status fit_recall(const ConstTensorView& queries, Stream& stream, const ConstTensorView& value_gram = {},
                            LayerFit* layer = nullptr) = 0;
  /// For policies whose caches of a layer are fitted together (CachePolicy::create_layer_fit): called for each of them,
  /// in the order of heads, before fit_recall() of any, with the same queries. A no-op for others.
  virtual Status prepare_fit(const ConstTensorView& queries, Stream& stream, const ConstTensorView& value_gram,
                             LayerFit* layer) = 0;

  /// One decode step: attention of q [1, h_q, d_row] over kept, tail and recalled rows.
  /// @param out [1, h_q, d_content] f32. @param lse [1, h_q] f32 or empty. @param record added to, may be null.
  virtual Status attend(const ConstTensorView& q, const TensorView& out, const TensorView& lse, StepRecord* record,
                        Stream& stream) = 0;

  /// Every row as the last step attended it: exactly, or what its code stands for. Slow: for measurements.
  /// @param out n = n_rows()
  /// @return Unsupported if steps leave rows out, or the policy cannot say what a code stands for
  virtual Status rebuild(const RebuiltRows& out, Stream& stream) const = 0;

  /// All rows, tail included, in position order (dense prefill attention reads these). Once rows are dropped: none,
  /// with null tables, which every op refuses for more rows than 0. A table never has holes.
  virtual RowPages pages() const = 0;
  /// Whether archived rows are gone but for their codes. It stays so; then all of them are.
  virtual bool rows_dropped() const = 0;
  virtual const RowLayout& layout() const = 0;
  virtual int32_t h_q() const = 0;
  virtual float scale() const = 0;
  virtual const CachePolicy& policy() const = 0;
  virtual int64_t n_rows() const = 0;
  virtual int64_t n_closed() const = 0;
  virtual std::vector<int32_t> kept_ids() const = 0;  ///< ascending
  virtual int64_t n_kept() const = 0;
  /// The archived rows that the last attend() attended exactly, ascending; valid until the next call that is not const.
  virtual std::span<const int32_t> recalled_ids() const = 0;
  /// Bytes of memory held, by part, for inspect and for the conformance test. `rows` counts whole blocks, the open one
  /// too; `scores` those of closed rows, of kept rows alone once the others are dropped.
  struct Bytes {
    int64_t rows = 0, kept_arena = 0, index = 0, scores = 0;
    int64_t codes = 0;  ///< of `index`: where rows are attended by their code, all of it: codes, transform and metrics
  };
  virtual Bytes bytes() const = 0;

  /// Saves every part under `prefix`; loads it back, row and index memory then being views of the source.
  virtual Status save(const std::string& prefix, TensorSink& sink) const = 0;
  virtual Status load(const std::string& prefix, const TensorSource& source) = 0;
};

}  // namespace vestige
