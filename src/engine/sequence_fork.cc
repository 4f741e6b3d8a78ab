// What happens to a document once its rows are there: scorers observe queries, the index is fitted; and the same again
// under another policy.

#include <algorithm>

#include "engine/memory_tensors.h"
#include "engine/sequence.h"

namespace vestige {

namespace {

/// The engine hands the index the queries of this many tokens. The paper calibrates on the end of the prompt, and 1,024
/// tokens x 8 heads give the rank-64 basis 128 samples a dimension. The setting n_calibrate goes no higher than this.
constexpr int64_t kFitTokens = 1024;

}  // namespace

int64_t Sequence::n_queries_wanted() const { return std::max(has_index_ ? kFitTokens : 0, n_observed_); }

Status Sequence::observe(const std::vector<QueryStore>& queries, int64_t begin, int64_t end, int64_t position) {
  broken_ = true;
  for (size_t i = 0; i < caches_.size(); ++i) {
    const int64_t n = end - begin, h_q = caches_[i]->h_q(), d_row = caches_[i]->layout().d_row();
    VESTIGE_ASSIGN(const Buffer memory, Buffer::create(static_cast<size_t>(n * h_q * d_row) * sizeof(float)));
    const TensorView absorbed(memory.data(), DType::kF32, {n, h_q, d_row});
    VESTIGE_TRY(queries[i].absorb(engine_.model(), i, begin, absorbed, engine_.stream()));
    VESTIGE_TRY(caches_[i]->observe(absorbed, position, engine_.stream()));
    VESTIGE_TRY(engine_.stream().synchronize());  // the queries' memory ends here
  }
  broken_ = false;
  return {};
}

// Pieces end at multiples of a slab, so that a scorer sees the same calls in every context.
Status Sequence::observe_prompt(const ProgressFn& progress) {
  observed_until_ = std::max(observed_until_, n_tokens() - std::min(n_tokens(), n_observed_));
  while (observed_until_ < n_tokens()) {
    const int64_t end = std::min(n_tokens(), (observed_until_ / QueryStore::kSlab + 1) * QueryStore::kSlab);
    VESTIGE_TRY(observe(*queries_, observed_until_, end, observed_until_));
    observed_until_ = end;
    if (progress && !progress(n_computed_, n_tokens())) return cancelled("reading was stopped");
  }
  return {};
}

Status Sequence::settle(const ProgressFn& progress) {
  if (observes_ == ObservedQueries::kPrompt) VESTIGE_TRY(observe_prompt(progress));
  if (observes_ == ObservedQueries::kRepeat) VESTIGE_TRY(observe_repeat(progress));
  broken_ = true;
  VESTIGE_TRY(rescore());
  VESTIGE_TRY(fit_recall());
  broken_ = false;
  return {};
}

size_t Sequence::group_end(size_t begin) const {
  const std::vector<CacheLayer>& layers = engine_.model().info().cache_layers;
  if (caches_[begin]->policy().fits_layers_together()) return caches_.size();
  size_t end = begin;
  while (end < caches_.size() && layers[end].layer == layers[begin].layer) ++end;
  return end;
}

Status Sequence::rescore() {
  const std::vector<CacheLayer>& layers = engine_.model().info().cache_layers;
  for (size_t begin = 0, end = 0; begin < caches_.size(); begin = end) {
    end = group_end(begin);
    const std::unique_ptr<KeepBudget> budget = caches_[begin]->policy().create_keep_budget();
    int32_t place = 0;
    for (size_t i = begin; i < end && budget != nullptr; ++i) {
      place += i > begin && layers[i].layer != layers[i - 1].layer ? 1 : 0;
      VESTIGE_TRY(caches_[i]->prepare_rescore(*budget, place, engine_.stream()));
    }
    for (size_t i = begin; i < end; ++i) VESTIGE_TRY(caches_[i]->rescore(engine_.stream(), budget.get()));
  }
  return {};
}

Result<ConstTensorView> Sequence::last_queries(size_t i, int64_t n, Buffer* memory) {
  const int64_t h_q = caches_[i]->h_q(), d_row = caches_[i]->layout().d_row();
  VESTIGE_ASSIGN(*memory, Buffer::create(static_cast<size_t>(n * h_q * d_row) * sizeof(float)));
  const TensorView absorbed(memory->data(), DType::kF32, {n, h_q, d_row});
  VESTIGE_TRY((*queries_)[i].absorb(engine_.model(), i, n_tokens() - n, absorbed, engine_.stream()));
  return ConstTensorView(absorbed);
}

// What an error of content costs cache i; empty where no block is closed, and so nothing is fitted.
Result<ConstTensorView> Sequence::scaled_gram(size_t i, Buffer* memory) {
  if (caches_[i]->n_closed() == 0) return ConstTensorView();
  const int64_t d = caches_[i]->layout().d_content;
  VESTIGE_ASSIGN(*memory, Buffer::create(static_cast<size_t>(d * d) * sizeof(float)));
  const TensorView gram(memory->data(), DType::kF32, {d, d});
  VESTIGE_TRY(engine_.model().value_gram(i, gram, engine_.stream()));
  const float unit = energy_.unit(engine_.model().info().cache_layers[i].layer);
  for (int64_t j = 0; j < d * d; ++j) gram.as<float>()[j] *= unit;
  return ConstTensorView(gram);
}

Status Sequence::fit_together(size_t begin, size_t end, LayerFit* together) {
  const int64_t n = std::min(n_tokens(), kFitTokens);
  std::vector<Buffer> memory(end - begin);
  std::vector<ConstTensorView> grams(end - begin);
  // Queries are made anew for the second pass: those of a whole sequence would take too much memory.
  const auto with_queries = [&](size_t i, const auto& call) -> Status {
    Buffer queries_memory;
    VESTIGE_ASSIGN(const ConstTensorView queries, last_queries(i, n, &queries_memory));
    VESTIGE_TRY(call(*caches_[i], queries, grams[i - begin]));
    return engine_.stream().synchronize();
  };
  for (size_t i = begin; i < end; ++i) {
    VESTIGE_ASSIGN(grams[i - begin], scaled_gram(i, &memory[i - begin]));
    if (together == nullptr) continue;
    VESTIGE_TRY(with_queries(i, [&](LayerCache& cache, const ConstTensorView& queries, const ConstTensorView& gram) {
      return cache.prepare_fit(queries, engine_.stream(), gram, together);
    }));
  }
  for (size_t i = begin; i < end; ++i) {
    VESTIGE_TRY(with_queries(i, [&](LayerCache& cache, const ConstTensorView& queries, const ConstTensorView& gram) {
      return cache.fit_recall(queries, engine_.stream(), gram, together);
    }));
  }
  return {};
}

// Group by group, so that rows which are dropped make room before the next group takes memory.
Status Sequence::fit_recall() {
  if (!has_index_) return {};
  for (size_t begin = 0, end = 0; begin < caches_.size(); begin = end) {
    end = group_end(begin);
    const std::unique_ptr<LayerFit> together = caches_[begin]->policy().create_layer_fit();
    VESTIGE_TRY(fit_together(begin, end, together.get()));
  }
  return {};
}

void Sequence::hold_queries(int64_t n_tokens) {
  if (n_tokens == 0) queries_ = nullptr;
  for (size_t i = 0; queries_ != nullptr && i < queries_->size(); ++i) (*queries_)[i].want(n_tokens);
}

// Whether rows are dropped does not change while a part is read: that happens at its end, or in a step.
// Forks may read the queries of this context, so an extension works on a copy of them.
Status Sequence::extend_tokens(std::span<const int32_t> tokens, const ProgressFn& progress) {
  VESTIGE_TRY(check_whole());
  if (!finished_) return invalid_argument("extend() before finish_reading()");
  VESTIGE_TRY(check_tokens(tokens));
  const bool begins = n_computed_ == n_tokens(), decodes = rows_dropped();
  if (begins && tokens.empty()) return {};
  if (begins && !decodes) {
    const int64_t n_held = std::max(has_index_ ? kFitTokens : 0, options_.n_kept_queries);
    const bool follows = queries_ != nullptr && queries_->front().end() == n_computed_;
    queries_ = follows ? std::make_shared<std::vector<QueryStore>>(*queries_)
                       : std::make_shared<std::vector<QueryStore>>(caches_.size(), QueryStore(n_held, n_computed_));
    hold_queries(n_held);
    extend_from_ = n_computed_;
  }
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  logits_.clear();
  VESTIGE_TRY(decodes ? decode_rest(progress) : compute_rest(progress));
  if (!decodes && n_tokens() - extend_from_ >= kFitTokens) {
    broken_ = true;
    VESTIGE_TRY(fit_recall());
    broken_ = false;
  }
  hold_queries(decodes ? 0 : options_.n_kept_queries);  // none of decoded tokens are held, and nobody can fork
  n_document_ = n_tokens();
  return {};
}

Status Sequence::copy_from(const Sequence& from) {
  for (size_t i = 0; i < caches_.size(); ++i) {
    VESTIGE_TRY(caches_[i]->share_rows(*from.caches_[i], engine_.stream()));
  }
  MemoryTensors state;
  VESTIGE_TRY(from.state_->save("", state));
  VESTIGE_TRY(state_->load("", state));
  tokens_ = from.tokens_;
  energy_ = from.energy_;
  last_hidden_ = from.last_hidden_;
  n_computed_ = n_document_ = from.n_computed_;
  ended_ = true;
  file_ = from.file_;
  return {};
}

Result<std::unique_ptr<Context>> Sequence::fork(const PolicyConfig& policy) const {
  return guarded([&] { return fork_as(policy); });
}

Result<std::unique_ptr<Context>> Sequence::fork_as(const PolicyConfig& policy) const {
  VESTIGE_TRY(check_whole());
  VESTIGE_TRY(check_finished("fork()"));
  if (rows_dropped()) {
    return unsupported("fork(): policy %s has dropped the exact rows; fork a context that has them, of policy full say",
                       policy_.name.c_str());
  }
  if (n_tokens() != n_document_) {
    return invalid_argument("fork() after feed(): %lld tokens, the document has %lld",
                            static_cast<long long>(n_tokens()), static_cast<long long>(n_document_));
  }
  auto out = std::make_unique<Sequence>(engine_, options_);
  VESTIGE_TRY(out->prepare(policy));
  const int64_t wanted = std::min(n_tokens(), out->n_queries_wanted());
  const int64_t kept = queries_ == nullptr ? 0 : queries_->front().size();
  if (wanted > kept) {
    return invalid_argument(
        "policy %s wants the queries of the last %lld tokens, this context kept n_kept_queries = %lld",
        policy.name.c_str(), static_cast<long long>(wanted), static_cast<long long>(kept));
  }
  VESTIGE_TRY(out->copy_from(*this));
  out->queries_ = queries_;
  VESTIGE_TRY(out->settle({}));
  out->finished_ = true;
  return std::unique_ptr<Context>(std::move(out));
}

}  // namespace vestige
