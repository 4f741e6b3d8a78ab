#include "eval/lost_rows.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace vestige::eval {

namespace {

double setting(const LayerCache& cache, const char* name, double otherwise) {
  const auto& settings = cache.policy().config().settings;
  const auto found = settings.find(name);
  return found == settings.end() ? otherwise : found->second;
}

/// The score or log-sum-exp that a head's archived rows are held against, before the margin.
Result<std::vector<float>> marks(const LayerCache& cache, const RowPages& rows, const ConstTensorView& q,
                                 std::vector<int32_t> ids, Stream& stream) {
  const int64_t h = cache.h_q();
  const bool by_max = setting(cache, "rule", 0) == 1;
  if (!by_max) {
    const auto n_kept = static_cast<int64_t>(ids.size());
    ids.resize(static_cast<size_t>(n_kept + cache.n_rows() - cache.n_closed()));
    std::iota(ids.begin() + n_kept, ids.end(), static_cast<int32_t>(cache.n_closed()));
  }
  std::vector<float> out(static_cast<size_t>(h * cache.layout().d_content)), lse(static_cast<size_t>(h)), max(lse);
  const auto n = static_cast<int32_t>(ids.size());
  const RowSet set = {.pages = rows, .ids = ids.data(), .n_rows = &n};
  VESTIGE_TRY(ops::attend_rows({.q = q,
                                .rows = std::span(&set, 1),
                                .out = TensorView(out.data(), DType::kF32, {1, h, cache.layout().d_content}),
                                .lse = TensorView(lse.data(), DType::kF32, {1, h}),
                                .max = TensorView(max.data(), DType::kF32, {1, h}),
                                .scale = cache.scale()},
                               stream));
  VESTIGE_TRY(stream.synchronize());
  return by_max ? max : lse;
}

}  // namespace

Status count_lost(const LayerCache& cache, const RowPages& rows, const ConstTensorView& q, bool coded, LostRows* lost,
                  Stream& stream) {
  const std::vector<int32_t> kept = cache.kept_ids();
  if (static_cast<int64_t>(kept.size()) == cache.n_closed()) return {};
  VESTIGE_ASSIGN(const std::vector<float> mark, marks(cache, rows, q, kept, stream));
  const int64_t h = cache.h_q();
  std::vector<uint8_t> mask(static_cast<size_t>(cache.n_closed()));
  for (const int32_t u : kept) mask[static_cast<size_t>(u)] = 1;
  RowPages closed = rows;
  closed.n_rows = cache.n_closed();
  std::vector<int32_t> limit(static_cast<size_t>(h), static_cast<int32_t>(closed.n_rows)), row(limit);
  std::vector<float> score(static_cast<size_t>(h));
  VESTIGE_TRY(ops::best_rows({.q = ConstTensorView(q.data, DType::kF32, {h, q.dim(2)}),
                              .rows = closed,
                              .limit = ConstTensorView(limit.data(), DType::kI32, {h}),
                              .mask = mask.data(),
                              .want = 0,
                              .best = TensorView(score.data(), DType::kF32, {h}),
                              .arg = TensorView(row.data(), DType::kI32, {h}),
                              .scale = cache.scale()},
                             stream));
  VESTIGE_TRY(stream.synchronize());
  const double margin = setting(cache, "margin", 2);
  const std::span<const int32_t> recalled = cache.recalled_ids();
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] < 0 || double(score[i]) <= double(mark[i]) - margin) continue;
    ++lost->n_due;
    if (!coded && !std::binary_search(recalled.begin(), recalled.end(), row[i])) ++lost->n_lost;
  }
  return {};
}

}  // namespace vestige::eval
