#include <algorithm>
#include <cstring>
#include <utility>

#include "cache/block_cache.h"
#include "cache/kept_window.h"

namespace vestige {

Status BlockCache::save_parts(const std::string& prefix, TensorSink& sink) const {
  const int64_t counts[] = {rows_.n_closed(), rows_.n_tail(), kept_.n_kept()};
  VESTIGE_TRY(sink.put(prefix + "counts", ConstTensorView(counts, DType::kI64, {3})));
  VESTIGE_TRY(rows_.save(prefix, sink));
  if (!share_.is_usual()) {
    const int64_t share[] = {share_.kept, share_.usual};
    VESTIGE_TRY(sink.put(prefix + "keep_share", ConstTensorView(share, DType::kI64, {2})));
  }
  if (rows_dropped()) {
    const int64_t n_dropped = rows_.n_closed() - kept_.n_kept();
    VESTIGE_TRY(sink.put(prefix + "dropped", ConstTensorView(&n_dropped, DType::kI64, {1})));
    if (kept_.n_kept() > 0) VESTIGE_TRY(sink.put(prefix + "kept_score", score_view(scores_, kept_.n_kept())));
  } else if (rows_.n_closed() > 0) {
    VESTIGE_TRY(sink.put(prefix + "score", score_view(scores_, rows_.n_closed())));
  }
  VESTIGE_TRY(kept_.save(prefix, layout_, sink));
  return index_ == nullptr ? Status() : index_->save(prefix, sink);
}

namespace {

Status check_counts(const std::string& prefix, const int64_t* counts, const CachePolicy& policy,
                    const KeepShare& share) {
  const int64_t block = policy.config().block_rows;
  if (counts[0] < 0 || counts[0] > INT32_MAX || counts[0] % block != 0) {
    return data_loss("%scounts: %lld closed rows, want a multiple of block_rows = %lld below 2^31", prefix.c_str(),
                     static_cast<long long>(counts[0]), static_cast<long long>(block));
  }
  if (counts[1] < 0 || counts[1] >= block) {
    return data_loss("%scounts: %lld tail rows, want 0 to %lld", prefix.c_str(), static_cast<long long>(counts[1]),
                     static_cast<long long>(block - 1));
  }
  const int64_t n_keep = share.of(policy.n_keep(counts[0]), counts[0]), n_sinks = policy.config().n_sinks;
  const int64_t least = std::max(n_keep, std::min(counts[0], n_sinks)), most = std::min(counts[0], n_keep + n_sinks);
  if (counts[2] < least || counts[2] > most) {
    return data_loss("%scounts: %lld kept of %lld closed rows, want %lld to %lld under this policy", prefix.c_str(),
                     static_cast<long long>(counts[2]), static_cast<long long>(counts[0]),
                     static_cast<long long>(least), static_cast<long long>(most));
  }
  return {};
}

/// Sinks are always kept; indexes count on it.
Status check_sinks(const std::string& prefix, const KeptRows& kept, int64_t n_sinks) {
  for (int64_t i = 0; i < std::min(n_sinks, kept.n_kept()); ++i) {
    if (kept.ids()[i] != i) {
      return data_loss("%skept_ids[%lld] = %d, want the first %lld rows to be kept", prefix.c_str(),
                       static_cast<long long>(i), kept.ids()[i], static_cast<long long>(n_sinks));
    }
  }
  return {};
}

/// Of a file of a policy without a KeepBudget: the usual one.
Result<KeepShare> read_share(const std::string& prefix, const TensorSource& source) {
  const auto view = source.get(prefix + "keep_share", DType::kI64, {2});
  if (!view.ok() && view.status().code() == StatusCode::kNotFound) return KeepShare{};
  VESTIGE_TRY(view.status());
  int64_t share[2];
  std::memcpy(share, view->data, sizeof share);
  if (share[0] >= 0 && share[0] <= INT32_MAX && share[1] >= 1 && share[1] <= INT32_MAX) {
    return KeepShare{share[0], share[1]};
  }
  return data_loss("%skeep_share = %lld / %lld, want 0 to %d / 1 to %d", prefix.c_str(),
                   static_cast<long long>(share[0]), static_cast<long long>(share[1]), INT32_MAX, INT32_MAX);
}

/// Rows kept by their place: indexes count on it, and the scores decide about the blocks to come.
Status check_positions(const std::string& prefix, const KeptRows& kept, const Buffer& scores, int64_t n_closed,
                       const CachePolicy& policy, bool dropped) {
  const int64_t n_sinks = std::min<int64_t>(policy.config().n_sinks, n_closed);
  const int64_t window = std::max(n_sinks, n_closed - policy.n_keep(n_closed));
  if (!is_kept_window(kept.id_span(), n_sinks, window, n_closed)) {
    return data_loss("%skept_ids: want the first %lld of %lld rows and those from %lld on with policy %s",
                     prefix.c_str(), static_cast<long long>(n_sinks), static_cast<long long>(n_closed),
                     static_cast<long long>(window), policy.config().name.c_str());
  }
  const float* score = reinterpret_cast<const float*>(scores.data());
  for (int64_t i = 0; i < (dropped ? kept.n_kept() : n_closed); ++i) {
    const int64_t row = dropped ? kept.ids()[i] : i;
    if (score[i] == static_cast<float>(row)) continue;
    return data_loss("%sscore of row %lld = %g, want its position with policy %s", prefix.c_str(),
                     static_cast<long long>(row), double(score[i]), policy.config().name.c_str());
  }
  return {};
}

/// Whether the file says that archived rows were dropped.
Result<bool> read_dropped(const std::string& prefix, const TensorSource& source, const int64_t* counts) {
  const auto view = source.get(prefix + "dropped", DType::kI64, {1});
  if (!view.ok() && view.status().code() == StatusCode::kNotFound) return false;
  VESTIGE_TRY(view.status());
  int64_t n = 0;
  std::memcpy(&n, view->data, sizeof n);
  if (n == counts[0] - counts[2] && n > 0) return true;
  return data_loss("%sdropped = %lld, want %lld, the closed rows that are not kept, above 0", prefix.c_str(),
                   static_cast<long long>(n), static_cast<long long>(counts[0] - counts[2]));
}

Result<Buffer> load_scores(const std::string& name, const TensorSource& source, int64_t n) {
  VESTIGE_ASSIGN(Buffer scores, Buffer::create(static_cast<size_t>(n) * sizeof(float)));
  if (n == 0) return scores;
  VESTIGE_ASSIGN(const ConstTensorView view, source.get(name, DType::kF32, {n}));
  std::memcpy(scores.data(), view.data, scores.size_bytes());
  return scores;
}

}  // namespace

// Built aside and moved in at the end, so that a bad source leaves this cache as it was.
Status BlockCache::load_parts(const std::string& prefix, const TensorSource& source) {
  VESTIGE_ASSIGN(const ConstTensorView view, source.get(prefix + "counts", DType::kI64, {3}));
  int64_t counts[3];
  std::memcpy(counts, view.data, sizeof counts);
  VESTIGE_ASSIGN(const KeepShare share, read_share(prefix, source));
  VESTIGE_TRY(check_counts(prefix, counts, *policy_, share));
  RowStore rows(layout_, block_rows());
  VESTIGE_ASSIGN(const bool dropped, read_dropped(prefix, source, counts));
  VESTIGE_TRY(rows.load(prefix, source, counts[0], counts[1], dropped));
  VESTIGE_ASSIGN(KeptRows kept, KeptRows::load(prefix, source, layout_, counts[0], counts[2], dropped));
  VESTIGE_TRY(check_sinks(prefix, kept, policy_->config().n_sinks));
  VESTIGE_ASSIGN(Buffer scores,
                 load_scores(prefix + (dropped ? "kept_score" : "score"), source, dropped ? counts[2] : counts[0]));
  if (policy_->scores_by_position()) {
    VESTIGE_TRY(check_positions(prefix, kept, scores, counts[0], *policy_, dropped));
  }
  std::unique_ptr<RecallIndex> index = policy_->create_index(layout_, rotation_);
  if (index != nullptr) VESTIGE_TRY(index->load(prefix, source, counts[0]));
  if (dropped && (index == nullptr || !index->replaces_rows())) {
    return data_loss("%sdropped: policy %s has no codes for these rows", prefix.c_str(),
                     policy_->config().name.c_str());
  }
  rows_ = std::move(rows);
  kept_ = std::move(kept);
  scores_ = std::move(scores);
  share_ = share;
  index_ = std::move(index);
  return {};
}

}  // namespace vestige
