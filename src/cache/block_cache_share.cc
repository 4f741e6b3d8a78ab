#include <utility>

#include "cache/block_cache.h"

namespace vestige {

// Built aside and moved in at the end, so that a failure leaves this cache empty.
Status BlockCache::share_rows(const LayerCache& from, Stream& stream) {
  return guarded([&]() -> Status {
    if (n_rows() != 0 || from.layout() != layout_) {
      return invalid_argument("share_rows: this cache has %lld rows, want 0, and rows of the same layout",
                              static_cast<long long>(n_rows()));
    }
    if (from.rows_dropped()) {
      return unsupported("share_rows: policy %s has dropped the exact rows, only codes of them are left",
                         from.policy().config().name.c_str());
    }
    const RowPages source = from.pages();
    if (source.n_rows == 0) return {};
    RowStore rows(layout_, block_rows());
    VESTIGE_TRY(rows.share(source, from.n_closed()));
    const int64_t n = rows.n_closed();
    const RowPages closed = rows.pages(n);
    VESTIGE_ASSIGN(Buffer scores, Buffer::create(static_cast<size_t>(n) * sizeof(float)));
    const TensorView all(scores.data(), DType::kF32, {n});
    KeptRows kept;
    for (int64_t row = 0; row < n; row += block_rows()) {
      const auto block = [&](const void* const* pages, int32_t width) -> ConstTensorView {
        if (width == 0) return {};
        return {pages[row / block_rows()], layout_.dtype, {block_rows(), width}};
      };
      VESTIGE_TRY(policy_->score_block(block(closed.content, layout_.d_content), block(closed.branch, layout_.d_branch),
                                       row, all.slice(row, block_rows()), stream));
    }
    if (n > 0) {
      VESTIGE_ASSIGN(kept, KeptRows::select(closed, all, keep_count(n), stream));
      if (index_ != nullptr) VESTIGE_TRY(index_->extend(closed, n, stream));
    }
    rows_ = std::move(rows);
    kept_ = std::move(kept);
    scores_ = std::move(scores);
    return {};
  });
}

}  // namespace vestige
