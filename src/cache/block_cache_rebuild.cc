// Rows as a step attends them, for measurements.

#include "backend/ops/row_access.h"
#include "cache/block_cache.h"

namespace vestige {

Status BlockCache::rebuild_rows(const RebuiltRows& out, Stream& stream) const {
  const int64_t n = rows_.n_rows(), d = layout_.d_row();
  const auto fits = [&](const TensorView& x, DType dtype) {
    return x.data != nullptr && x.dtype == dtype && x.dim(0) == n && x.contiguous();
  };
  if (!fits(out.rows, DType::kF32) || out.rows.rank != 2 || out.rows.dim(1) != d || !fits(out.finely, DType::kU8)) {
    return invalid_argument("rebuild: rows %s and finely %s, want [%lld, %lld] F32 and [%lld] U8",
                            describe(out.rows).c_str(), describe(out.finely).c_str(), static_cast<long long>(n),
                            static_cast<long long>(d), static_cast<long long>(n));
  }
  const auto put = [&](const RowPages& from, int64_t i, int64_t u) {
    load_row(from, i, out.rows.as<float>() + u * d);
    out.finely.as<uint8_t>()[u] = 1;
  };
  const int64_t n_closed = rows_.n_closed();
  const RowPages kept = kept_.pages(closed_pages()), tail = rows_.tail_pages();
  for (int64_t i = 0; i < kept_.n_kept(); ++i) put(kept, i, kept_.n_archived() == 0 ? i : kept_.ids()[i]);
  for (int64_t i = 0; i < tail.n_rows; ++i) put(tail, i, n_closed + i);
  if (kept_.n_archived() == 0) return {};
  if (index_ == nullptr || !index_->attends_codes()) {
    return unsupported("rebuild: policy %s leaves rows out", policy_->config().name.c_str());
  }
  return index_->rebuild({out.rows.slice(0, n_closed), out.finely.slice(0, n_closed)}, stream);
}

}  // namespace vestige
