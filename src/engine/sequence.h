#pragma once

// The one implementation of Context.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "engine/query_store.h"
#include "engine/stream_energy.h"
#include "vestige/engine.h"
#include "vestige/ops/matmul.h"

namespace vestige {

class Sequence final : public Context {
 public:
  explicit Sequence(Engine& engine, const ContextOptions& options = {}) : engine_(engine), options_(options) {}
  /// Empty caches and state.
  Status prepare(const PolicyConfig& policy);
  /// Everything from a file; `policy`, if any, replaces the file's.
  Status restore(std::shared_ptr<const ContextFile> file, const LoadOptions& options);

  Status read(std::span<const int32_t> tokens, const ProgressFn& progress) override {
    return guarded([&] { return read_tokens(tokens, progress); });
  }
  Status finish_reading(const ProgressFn& progress) override {
    return guarded([&] { return finish(progress); });
  }
  Status extend(std::span<const int32_t> tokens, const ProgressFn& progress) override {
    return guarded([&] { return extend_tokens(tokens, progress); });
  }
  Status feed(std::span<const int32_t> tokens, StepRecord* record) override {
    return guarded([&] { return feed_tokens(tokens, record); });
  }
  Result<std::span<const float>> logits() override {
    return guarded([&] { return compute_logits(); });
  }
  Result<std::unique_ptr<Context>> fork(const PolicyConfig& policy) const override;
  int64_t n_tokens() const override { return static_cast<int64_t>(tokens_.size()); }
  std::span<const int32_t> tokens() const override { return tokens_; }
  std::span<LayerCache* const> caches() const override { return cache_pointers_; }
  int64_t state_bytes() const override { return state_->size_bytes(); }
  Status save(const std::string& path, const ProgressFn& progress) const override {
    return guarded([&] { return save_file(path, progress); });
  }

 private:
  Status read_tokens(std::span<const int32_t> tokens, const ProgressFn& progress);
  Status finish(const ProgressFn& progress);
  Status extend_tokens(std::span<const int32_t> tokens, const ProgressFn& progress);
  Status feed_tokens(std::span<const int32_t> tokens, StepRecord* record);
  Result<std::span<const float>> compute_logits();
  Status save_file(const std::string& path, const ProgressFn& progress) const;
  Status check_whole() const;
  Status check_finished(const char* call) const;
  Status forward(const ForwardParams& params);
  Status check_tokens(std::span<const int32_t> tokens) const;
  Status compute_tile(int64_t n_tokens);
  /// All that is left, in passes whose bits do not depend on where they are cut.
  Status compute_rest(const ProgressFn& progress);
  /// One pass in decode form over tokens [n_computed_, n_computed_ + n_tokens).
  Status compute_decoded(std::span<const int32_t> tokens, StepRecord* record);
  /// All that is left, in decode form: for caches that have no rows to read on from.
  Status decode_rest(const ProgressFn& progress);
  bool rows_dropped() const;
  void hold_queries(int64_t n_tokens);
  Result<std::unique_ptr<Context>> fork_as(const PolicyConfig& policy) const;
  /// Empty after prepare(): stands where `from` does. Its caches and this one's share closed blocks.
  Status copy_from(const Sequence& from);
  /// What follows when the document is there: its queries are observed, kept rows picked anew, the index fitted.
  /// After Cancelled it goes on where it stopped.
  Status settle(const ProgressFn& progress);
  Status observe_prompt(const ProgressFn& progress);
  Status observe_repeat(const ProgressFn& progress);
  Status repeat_chunk(int64_t begin, int64_t end, int64_t* n_observed);
  Status observe(const std::vector<QueryStore>& queries, int64_t begin, int64_t end, int64_t position);
  /// Past the last of the caches that share a LayerFit and a KeepBudget with cache `begin`.
  size_t group_end(size_t begin) const;
  /// Chooses kept rows by what the scorers saw.
  Status rescore();
  Status fit_recall();
  /// Fits caches [begin, end) to the document's last tokens; with `together` each is prepared before any is fitted.
  Status fit_together(size_t begin, size_t end, LayerFit* together);
  /// RecallFit::value_gram of cache i. @param memory takes it
  Result<ConstTensorView> scaled_gram(size_t i, Buffer* memory);
  /// Queries of the last n tokens as cache i sees them. @param memory takes them
  Result<ConstTensorView> last_queries(size_t i, int64_t n, Buffer* memory);
  /// Tokens, counted from the end of the document, whose queries the policy wants.
  int64_t n_queries_wanted() const;
  Status save_parts(TensorSink& sink) const;
  TensorView last_hidden() { return {last_hidden_.data(), DType::kF32, {static_cast<int64_t>(last_hidden_.size())}}; }

  Engine& engine_;
  ContextOptions options_;
  PolicyConfig policy_;
  std::shared_ptr<const ContextFile> file_;  ///< the caches view its mapping
  std::vector<std::unique_ptr<LayerCache>> caches_;
  std::vector<LayerCache*> cache_pointers_;
  std::unique_ptr<ModelState> state_;
  bool has_index_ = false;  ///< some cache has one
  ObservedQueries observes_ = ObservedQueries::kNone;
  int64_t n_observed_ = 0;  ///< tokens whose queries the policy's scorer wants
  /// One a layer, or null; shared with forks, and constant once finished.
  std::shared_ptr<std::vector<QueryStore>> queries_;
  StreamEnergy energy_;         ///< of the tokens read, where queries are held
  int64_t observed_until_ = 0;  ///< document tokens that settle() is through with
  int64_t n_repeated_ = 0;      ///< tokens of the repeat pass observed so far
  std::vector<int32_t> tokens_;
  std::vector<float> last_hidden_;
  std::vector<float> logits_;  ///< empty until asked for
  int64_t n_computed_ = 0;     ///< tokens whose rows are in the caches
  int64_t n_document_ = 0;     ///< tokens that finish_reading() or extend() found, or the file; more were fed
  int64_t extend_from_ = 0;    ///< where the last extend() began
  bool ended_ = false;         ///< finish_reading() began: the remainder is no whole tile, so nothing can follow it
  bool finished_ = false;      ///< and succeeded
  bool broken_ = false;        ///< a pass stopped midway: some layers have its rows, others do not
};

}  // namespace vestige
