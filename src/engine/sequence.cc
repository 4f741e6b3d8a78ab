#include "engine/sequence.h"

#include <algorithm>

namespace vestige {

namespace {

/// Passes of up to kGemvRows tokens have other bits than longer ones, so no document may end in one: reading holds back
/// so much that the rest can be cut in two.
constexpr int64_t kLongestRest = Model::kTileTokens + MatmulParams::kGemvRows;
constexpr size_t kFeedTokens = 8;  // of one pass: the model reads its weights once for these, with the same bits

}  // namespace

Result<std::unique_ptr<Context>> Context::create(Engine& engine, const PolicyConfig& policy,
                                                 const ContextOptions& options) {
  if (options.n_kept_queries < 0) {
    return invalid_argument("n_kept_queries = %lld, want at least 0", static_cast<long long>(options.n_kept_queries));
  }
  return guarded([&]() -> Result<std::unique_ptr<Context>> {
    auto sequence = std::make_unique<Sequence>(engine, options);
    VESTIGE_TRY(sequence->prepare(policy));
    return std::unique_ptr<Context>(std::move(sequence));
  });
}

Status Sequence::check_whole() const {
  if (!broken_) return {};
  return invalid_argument("the context is unusable since an earlier call failed midway, create or load another");
}

Status Sequence::check_finished(const char* call) const {
  if (!finished_) return invalid_argument("%s before finish_reading()", call);
  if (n_computed_ == n_tokens()) return {};
  return invalid_argument("%s before extend() is through: it was stopped, call it again", call);
}

/// A pass that fails, or throws, leaves the context broken.
Status Sequence::forward(const ForwardParams& params) {
  broken_ = true;
  VESTIGE_TRY(engine_.model().forward(params, engine_.stream()));
  broken_ = false;
  return {};
}

Status Sequence::prepare(const PolicyConfig& policy) {
  const ModelInfo& info = engine_.model().info();
  for (const CacheLayer& layer : info.cache_layers) {
    VESTIGE_ASSIGN(std::shared_ptr<const CachePolicy> shared, create_policy(policy, layer.layout));
    has_index_ = has_index_ || shared->create_index(layer.layout) != nullptr;
    observes_ = shared->observes();
    n_observed_ = observes_ == ObservedQueries::kPrompt ? shared->n_observed() : 0;
    VESTIGE_ASSIGN(std::unique_ptr<LayerCache> cache,
                   LayerCache::create(layer.layout, layer.h_q, layer.scale, std::move(shared), layer.rotation));
    cache_pointers_.push_back(cache.get());
    caches_.push_back(std::move(cache));
  }
  // With every setting, so that a later default does not change what a file means.
  policy_ = caches_.empty() ? policy : caches_.front()->policy().config();
  const int64_t n_held = std::max(n_queries_wanted(), options_.n_kept_queries);
  if (n_held > 0) queries_ = std::make_shared<std::vector<QueryStore>>(caches_.size(), QueryStore(n_held));
  VESTIGE_ASSIGN(state_, engine_.model().create_state());
  last_hidden_.resize(static_cast<size_t>(info.d_model));
  return {};
}

Status Sequence::check_tokens(std::span<const int32_t> tokens) const {
  const ModelInfo& info = engine_.model().info();
  const int64_t needed = n_tokens() + static_cast<int64_t>(tokens.size());
  if (needed > info.max_tokens) {
    return invalid_argument("%lld tokens are needed, the model's window allows %lld", static_cast<long long>(needed),
                            static_cast<long long>(info.max_tokens));
  }
  for (int32_t id : tokens) {
    if (id < 0 || id >= info.n_vocab) {
      return invalid_argument("token id %d, want [0, %lld)", id, static_cast<long long>(info.n_vocab));
    }
  }
  return {};
}

Status Sequence::read_tokens(std::span<const int32_t> tokens, const ProgressFn& progress) {
  VESTIGE_TRY(check_whole());
  if (ended_) return invalid_argument("the document was ended by finish_reading(), further tokens go to feed()");
  VESTIGE_TRY(check_tokens(tokens));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  logits_.clear();
  while (n_tokens() - n_computed_ > kLongestRest) {
    VESTIGE_TRY(compute_tile(Model::kTileTokens));
    if (progress && !progress(n_computed_, n_tokens())) return cancelled("reading was stopped");
  }
  return {};
}

Status Sequence::compute_rest(const ProgressFn& progress) {
  while (n_computed_ < n_tokens()) {
    const int64_t left = n_tokens() - n_computed_;
    const bool whole = left <= Model::kTileTokens || left > kLongestRest;
    VESTIGE_TRY(compute_tile(whole ? std::min(left, Model::kTileTokens) : Model::kTileTokens / 2));
    if (progress && !progress(n_computed_, n_tokens())) return cancelled("reading was stopped");
  }
  return {};
}

Status Sequence::finish(const ProgressFn& progress) {
  VESTIGE_TRY(check_whole());
  if (finished_) return {};
  if (tokens_.empty()) return invalid_argument("the document is empty, want at least one token");
  ended_ = true;
  VESTIGE_TRY(compute_rest(progress));
  VESTIGE_TRY(settle(progress));
  hold_queries(options_.n_kept_queries);
  n_document_ = n_tokens();
  finished_ = true;
  return {};
}

Status Sequence::compute_tile(int64_t n_tokens) {
  ForwardParams p;
  p.tokens = std::span<const int32_t>(tokens_).subspan(static_cast<size_t>(n_computed_), static_cast<size_t>(n_tokens));
  p.position = n_computed_;
  p.state = state_.get();
  p.caches = cache_pointers_;
  p.prefill = true;
  p.last_hidden = last_hidden();
  Status tapped;
  if (queries_ != nullptr) {
    p.query_tap = [&](size_t i, const ConstTensorView& q) {
      if (tapped.ok()) tapped = (*queries_)[i].add(q, n_computed_);
    };
  }
  if (queries_ != nullptr) {
    const auto n_layers = static_cast<int32_t>(engine_.model().info().n_layers);
    p.hidden_tap = [this, n_layers](int32_t layer, const ConstTensorView& x) {
      if (layer + 1 < n_layers) energy_.add(layer + 1, x);
    };
  }
  VESTIGE_TRY(forward(p));
  broken_ = !tapped.ok();
  n_computed_ += n_tokens;
  return tapped;
}

Status Sequence::feed_tokens(std::span<const int32_t> tokens, StepRecord* record) {
  VESTIGE_TRY(check_whole());
  VESTIGE_TRY(check_finished("feed()"));
  VESTIGE_TRY(check_tokens(tokens));
  const size_t n_wanted = tokens_.size() + tokens.size();  // nothing may fail between the caches' rows and ours
  if (n_wanted > tokens_.capacity()) tokens_.reserve(std::max(n_wanted, tokens_.capacity() * 2));
  while (!tokens.empty()) {
    const auto pass = tokens.first(std::min(tokens.size(), kFeedTokens));
    VESTIGE_TRY(compute_decoded(pass, record));
    tokens_.insert(tokens_.end(), pass.begin(), pass.end());
    tokens = tokens.subspan(pass.size());
  }
  return {};
}

Status Sequence::compute_decoded(std::span<const int32_t> tokens, StepRecord* record) {
  ForwardParams p;
  p.tokens = tokens;
  p.position = n_computed_;
  p.state = state_.get();
  p.caches = cache_pointers_;
  p.record = record;
  p.last_hidden = last_hidden();
  VESTIGE_TRY(forward(p));
  n_computed_ += static_cast<int64_t>(tokens.size());
  logits_.clear();
  return {};
}

Status Sequence::decode_rest(const ProgressFn& progress) {
  while (n_computed_ < n_tokens()) {
    const auto left = std::span<const int32_t>(tokens_).subspan(static_cast<size_t>(n_computed_));
    VESTIGE_TRY(compute_decoded(left.first(std::min(left.size(), kFeedTokens)), nullptr));
    if (progress && !progress(n_computed_, n_tokens())) return cancelled("reading was stopped");
  }
  return {};
}

bool Sequence::rows_dropped() const {
  return std::any_of(caches_.begin(), caches_.end(), [](const auto& cache) { return cache->rows_dropped(); });
}

Result<std::span<const float>> Sequence::compute_logits() {
  VESTIGE_TRY(check_whole());
  if (n_computed_ == 0) return invalid_argument("logits() before any token was computed");
  VESTIGE_TRY(check_finished("logits()"));
  if (logits_.empty()) {
    std::vector<float> values(static_cast<size_t>(engine_.model().info().n_vocab));
    const TensorView out(values.data(), DType::kF32, {static_cast<int64_t>(values.size())});
    VESTIGE_TRY(engine_.model().logits(last_hidden(), out, engine_.stream()));
    VESTIGE_TRY(engine_.stream().synchronize());
    logits_ = std::move(values);
  }
  return std::span<const float>(logits_);
}

}  // namespace vestige
