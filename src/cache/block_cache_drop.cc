// What happens to closed rows that the index replaces by codes.

#include <cstring>
#include <utility>

#include "cache/block_cache.h"

namespace vestige {

Status BlockCache::check_rows_there(const char* call) const {
  if (!rows_dropped()) return {};
  return unsupported("%s: policy %s has dropped the exact rows, only codes of them are left", call,
                     policy_->config().name.c_str());
}

// Nothing changes before the last allocation; if that fails, the next step tries again.
Status BlockCache::drop_replaced() {
  if (rows_dropped() || index_ == nullptr || kept_.n_archived() == 0 || !index_->replaces_rows()) return {};
  const int64_t n = kept_.n_kept();
  VESTIGE_ASSIGN(Buffer scores, Buffer::create(static_cast<size_t>(n) * sizeof(float)));
  const float* from = score_view(scores_, rows_.n_closed()).as<float>();
  for (int64_t i = 0; i < n; ++i) reinterpret_cast<float*>(scores.data())[i] = from[kept_.ids()[i]];
  scores_ = std::move(scores);
  kept_.forget_archive();
  rows_.drop_closed();
  recalled_ = {};
  return {};
}

// As close_block: after an error the block is still the open tail.
Status BlockCache::close_dropped_block(Stream& stream) {
  const int64_t m = kept_.n_kept();
  const RowPages block = rows_.tail_pages();
  VESTIGE_ASSIGN(Buffer scores, Buffer::create(static_cast<size_t>(m + block.n_rows) * sizeof(float)));
  if (m > 0) std::memcpy(scores.data(), scores_.data(), static_cast<size_t>(m) * sizeof(float));
  const TensorView all(scores.data(), DType::kF32, {m + block.n_rows});
  VESTIGE_TRY(policy_->score_block(rows_.tail_content(), rows_.tail_branch(), rows_.n_closed(),
                                   all.slice(m, block.n_rows), stream));
  Buffer kept_scores;
  VESTIGE_ASSIGN(KeptRows kept,
                 kept_.select_left(block, all, keep_count(rows_.n_closed() + block.n_rows), &kept_scores, stream));
  VESTIGE_TRY(index_->extend_dropped({.rows = block,
                                      .first_row = rows_.n_closed(),
                                      .held = kept_.pages(closed_pages()),
                                      .held_ids = kept_.id_span(),
                                      .kept_ids = kept.id_span()},
                                     stream));
  scores_ = std::move(kept_scores);
  kept_ = std::move(kept);
  rows_.close_tail();
  rows_.drop_closed();
  return {};
}

}  // namespace vestige
