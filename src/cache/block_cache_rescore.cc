// Kept rows chosen anew by what a scorer saw: by each cache itself, or by caches that share a budget.

#include <utility>

#include "cache/block_cache.h"

namespace vestige {

Result<Buffer> BlockCache::final_scores(Stream& stream) {
  VESTIGE_TRY(check_rows_there("rescore"));
  const int64_t n = rows_.n_closed();
  VESTIGE_ASSIGN(Buffer scores, Buffer::create(static_cast<size_t>(n) * sizeof(float)));
  VESTIGE_TRY(scorer_->finish(closed_pages(), TensorView(scores.data(), DType::kF32, {n}), stream));
  return scores;
}

Status BlockCache::join_budget(KeepBudget& budget, int32_t layer, Stream& stream) {
  joined_ = {};
  const int64_t n = rows_.n_closed();
  if (scorer_ == nullptr || n == 0) return {};
  VESTIGE_ASSIGN(Buffer scores, final_scores(stream));
  VESTIGE_TRY(stream.synchronize());
  VESTIGE_ASSIGN(const size_t number, budget.add(score_view(scores, n), policy_->n_keep(n), layer));
  joined_ = {&budget, number, std::move(scores)};
  scorer_ = nullptr;
  return {};
}

Status BlockCache::select_anew(KeepBudget* budget, Stream& stream) {
  const int64_t n = rows_.n_closed(), n_usual = policy_->n_keep(n);
  const bool joined = budget != nullptr && joined_.budget == budget;
  KeepShare share;
  if (joined) {
    if (n_usual > 0) share = {budget->n_keep(joined_.number), n_usual};
  } else {
    if (scorer_ == nullptr || n == 0) return {};
    if (budget != nullptr) return internal_error("rescore: prepare_rescore() did not come first");
    joined_ = {};
    VESTIGE_ASSIGN(joined_.scores, final_scores(stream));
  }
  VESTIGE_ASSIGN(KeptRows kept, KeptRows::select(closed_pages(), score_view(joined_.scores, n),
                                                 {share.of(n_usual, n), policy_->config().n_sinks}, stream));
  share_ = share;
  scores_ = std::move(joined_.scores);
  kept_ = std::move(kept);
  scorer_ = nullptr;
  joined_ = {};
  return {};
}

}  // namespace vestige
