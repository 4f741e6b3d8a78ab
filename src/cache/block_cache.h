#pragma once

// The one LayerCache: rows in blocks, the kept ones copied together, and the policy's recall index.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "cache/kept_rows.h"
#include "cache/row_store.h"
#include "vestige/cache.h"

namespace vestige {

inline constexpr int64_t kMaxParts = 4;  // kept, tail, recalled, coded

/// What attend() and the index write into, sized once so that a step allocates nothing.
struct Scratch {
  Buffer part, lse, max, ids;
  Buffer attended, attended_lse;  // kept and tail rows together
  std::vector<float> omitted, final_lse, error, bound;
  int32_t n_ids = 0, n_fired = 0, n_gated = 0;
  int64_t n_stage[2] = {0, 0}, n_coded = 0;
};

/// Kept rows in proportion to what the policy keeps by itself: as the last KeepBudget had it.
struct KeepShare {
  int64_t kept = 1, usual = 1;  ///< in [0, 2^31), in [1, 2^31)

  bool is_usual() const { return kept == usual; }
  /// The nearest whole number, at most n_closed.
  int64_t of(int64_t n_keep, int64_t n_closed) const {
    return is_usual() ? n_keep : std::min(n_closed, (2 * n_keep * kept + usual) / (2 * usual));
  }
};

/// Between prepare_rescore() and rescore().
struct JoinedBudget {
  KeepBudget* budget = nullptr;
  size_t number = 0;  ///< of this cache there
  Buffer scores;      ///< that the budget saw
};

class BlockCache final : public LayerCache {
 public:
  BlockCache(const RowLayout& layout, int32_t h_q, float scale, std::shared_ptr<const CachePolicy> policy,
             KeyRotation rotation)
      : layout_(layout),
        h_q_(h_q),
        scale_(scale),
        policy_(std::move(policy)),
        rotation_(std::move(rotation)),
        rows_(layout, block_rows()) {}

  Status init();
  Status share_rows(const LayerCache& from, Stream& stream) override;
  Status reserve(int64_t n, TensorView* content, TensorView* branch) override {
    return guarded([&] { return rows_.reserve(n, content, branch); });
  }
  Status commit(int64_t n, Stream& stream) override {
    return guarded([&] { return commit_rows(n, stream); });
  }
  int64_t rows_until_close() const override { return block_rows() - rows_.n_tail(); }
  Status append(const ConstTensorView& rows, Stream& stream) override {
    return guarded([&] { return append_whole(rows, stream); });
  }
  Status append(const ConstTensorView& content, const ConstTensorView& branch, Stream& stream) override {
    return guarded([&] { return append_parts(content, branch, stream); });
  }
  Status observe(const ConstTensorView& queries, int64_t first_position, Stream& stream) override {
    return guarded([&] { return score_queries(queries, first_position, stream); });
  }
  Status rescore(Stream& stream, KeepBudget* budget) override {
    return guarded([&] { return select_anew(budget, stream); });
  }
  Status prepare_rescore(KeepBudget& budget, int32_t layer, Stream& stream) override {
    return guarded([&] { return join_budget(budget, layer, stream); });
  }
  Status fit_recall(const ConstTensorView& queries, Stream& stream, const ConstTensorView& value_gram,
                    LayerFit* layer) override {
    return guarded([&] { return fit_index(queries, value_gram, layer, stream); });
  }
  Status prepare_fit(const ConstTensorView& queries, Stream& stream, const ConstTensorView& value_gram,
                     LayerFit* layer) override {
    return guarded([&] { return prepare_index(queries, value_gram, layer, stream); });
  }
  Status attend(const ConstTensorView& q, const TensorView& out, const TensorView& lse, StepRecord* record,
                Stream& stream) override {
    return guarded([&] { return attend_parts(q, out, lse, record, stream); });
  }

  Status rebuild(const RebuiltRows& out, Stream& stream) const override {
    return guarded([&] { return rebuild_rows(out, stream); });
  }
  RowPages pages() const override { return rows_.pages(rows_.n_rows()); }
  bool rows_dropped() const override { return rows_.n_dropped() > 0; }
  const RowLayout& layout() const override { return layout_; }
  int32_t h_q() const override { return h_q_; }
  float scale() const override { return scale_; }
  const CachePolicy& policy() const override { return *policy_; }
  int64_t n_rows() const override { return rows_.n_rows(); }
  int64_t n_closed() const override { return rows_.n_closed(); }
  std::vector<int32_t> kept_ids() const override { return {kept_.ids(), kept_.ids() + kept_.n_kept()}; }
  int64_t n_kept() const override { return kept_.n_kept(); }
  std::span<const int32_t> recalled_ids() const override { return recalled_; }
  Bytes bytes() const override;

  Status save(const std::string& prefix, TensorSink& sink) const override {
    return guarded([&] { return save_parts(prefix, sink); });
  }
  Status load(const std::string& prefix, const TensorSource& source) override {
    return guarded([&] { return load_parts(prefix, source); });
  }

 private:
  // The bodies of the public functions, which may throw what the standard library throws.
  Status commit_rows(int64_t n, Stream& stream);
  Status append_whole(const ConstTensorView& rows, Stream& stream);
  Status append_parts(const ConstTensorView& content, const ConstTensorView& branch, Stream& stream);
  Status score_queries(const ConstTensorView& queries, int64_t first_position, Stream& stream);
  Status select_anew(KeepBudget* budget, Stream& stream);
  Status join_budget(KeepBudget& budget, int32_t layer, Stream& stream);
  /// Ends the scorer. [n_closed] f32
  Result<Buffer> final_scores(Stream& stream);
  /// @param call for messages
  Result<RecallFit> fit_params(const char* call, const ConstTensorView& queries) const;
  Status prepare_index(const ConstTensorView& queries, const ConstTensorView& value_gram, LayerFit* layer,
                       Stream& stream);
  Status fit_index(const ConstTensorView& queries, const ConstTensorView& value_gram, LayerFit* layer, Stream& stream);
  Status attend_parts(const ConstTensorView& q, const TensorView& out, const TensorView& lse, StepRecord* record,
                      Stream& stream);
  Status rebuild_rows(const RebuiltRows& out, Stream& stream) const;
  Status save_parts(const std::string& prefix, TensorSink& sink) const;
  Status load_parts(const std::string& prefix, const TensorSource& source);

  int32_t block_rows() const { return policy_->config().block_rows; }
  RowPages closed_pages() const { return rows_.pages(rows_.n_closed()); }
  KeepCount keep_count(int64_t n_closed) const {
    return {share_.of(policy_->n_keep(n_closed), n_closed), policy_->config().n_sinks};
  }
  ConstTensorView score_view(const Buffer& score, int64_t n) const { return {score.data(), DType::kF32, {n}}; }
  Status close_block(Stream& stream);
  /// The same once rows are dropped.
  Status close_dropped_block(Stream& stream);
  Status check_rows_there(const char* call) const;
  /// Drops the closed rows if the index replaces them. Not while a block closes: the reading that closes it may attend
  /// every row.
  Status drop_replaced();
  Status attend_part(const ConstTensorView& q, int64_t part, const RowSet& set, Stream& stream);
  /// Whether a step looks for rows to recall.
  bool recalls() const { return index_ != nullptr && kept_.n_archived() > 0; }
  /// Kept, tail and recalled rows, each a part, and the merge of the n_parts.
  Status attend_merged(const ConstTensorView& q, const TensorView& out, const TensorView& lse, int64_t* n_parts,
                       StepRecord* step, Stream& stream);
  /// The archive's share of a step: parts from the index, counted in `step`; n_parts grows by what joins.
  Status attend_archive(const ConstTensorView& q, int64_t* n_parts, StepRecord* step, Stream& stream);
  /// What the step may have missed, from the final lse and output.
  void certify(const TensorView& out, int64_t n_parts, StepRecord* step) const;
  RecallStep recall_step(const ConstTensorView& q);
  TensorView part_out(int64_t part) const {
    return TensorView(scratch_.part.data(), DType::kF32, {kMaxParts, h_q_, layout_.d_content}).slice(part, 1);
  }
  TensorView part_lse(int64_t part) const {
    return TensorView(scratch_.lse.data(), DType::kF32, {kMaxParts, h_q_}).slice(part, 1);
  }
  TensorView part_max(int64_t part) const {
    return TensorView(scratch_.max.data(), DType::kF32, {kMaxParts, h_q_}).slice(part, 1);
  }

  RowLayout layout_;
  int32_t h_q_;
  float scale_;
  std::shared_ptr<const CachePolicy> policy_;
  KeyRotation rotation_;
  RowStore rows_;
  KeptRows kept_;
  Buffer scores_;  // [n_closed] f32, or [n_kept] once rows are dropped
  std::unique_ptr<RecallIndex> index_;
  KeepShare share_;
  JoinedBudget joined_;
  std::unique_ptr<PromptScorer> scorer_;  // from the first observe() to rescore()
  Scratch scratch_;
  std::span<const int32_t> recalled_;  // of the last step
};

}  // namespace vestige
