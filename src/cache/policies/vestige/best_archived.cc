#include "cache/policies/vestige/best_archived.h"

#include <algorithm>

namespace vestige {

std::vector<int32_t> rows_seen(const CodecQueries& c) {
  const int64_t heads = c.queries.dim(1);
  std::vector<int32_t> limit(static_cast<size_t>(c.queries.dim(0) * heads));
  for (size_t i = 0; i < limit.size(); ++i) {
    const int64_t position = c.first_position + static_cast<int64_t>(i) / heads;
    limit[i] = static_cast<int32_t>(std::min(c.rows.n_rows, position + 1));
  }
  return limit;
}

Result<BestArchived> best_archived(const CodecQueries& c, Stream& stream) {
  const int64_t heads = c.queries.dim(1), n = c.queries.dim(0) * heads, d = c.queries.dim(2);
  BestArchived out;
  out.row.resize(static_cast<size_t>(n));
  out.target.resize(static_cast<size_t>(n));
  const std::vector<int32_t> limit = rows_seen(c);
  std::vector<int32_t> kept_row(static_cast<size_t>(n));
  std::vector<float> kept_best(static_cast<size_t>(n));
  const auto best = [&](uint8_t want, std::vector<float>* score, std::vector<int32_t>* row) {
    return ops::best_rows({.q = ConstTensorView(c.queries.data, DType::kF32, {n, d}),
                           .rows = c.rows,
                           .limit = ConstTensorView(limit.data(), DType::kI32, {n}),
                           .mask = c.kept,
                           .want = want,
                           .best = TensorView(score->data(), DType::kF32, {n}),
                           .arg = TensorView(row->data(), DType::kI32, {n}),
                           .scale = c.scale},
                          stream);
  };
  VESTIGE_TRY(best(0, &out.target, &out.row));
  if (c.hard_only) VESTIGE_TRY(best(1, &kept_best, &kept_row));
  VESTIGE_TRY(stream.synchronize());
  for (size_t i = 0; c.hard_only && i < out.row.size(); ++i) {
    if (kept_row[i] >= 0 && !(out.target[i] > kept_best[i])) out.row[i] = -1;
    if (kept_row[i] >= 0) out.target[i] = kept_best[i];
  }
  return out;
}

}  // namespace vestige
