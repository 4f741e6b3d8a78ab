// A sequence to a .vctx file and back.

#include <cstring>

#include "engine/context_writer.h"
#include "engine/sequence.h"
#include "vestige/version.h"

namespace vestige {

namespace {

Status check_match(const Engine& engine, const ContextFile& file) {
  const auto check = [&](const char* what, const std::string& in_file, const std::string& here) -> Status {
    if (in_file == here) return {};
    return mismatch("%s was made with another %s: %s, this one is %s", file.path().c_str(), what, in_file.c_str(),
                    here.c_str());
  };
  const ModelInfo& info = engine.model().info();
  VESTIGE_TRY(check("model", file.model_identity(), info.identity));
  VESTIGE_TRY(check("tokenizer", file.tokenizer_identity(), engine.tokenizer().fingerprint()));
  const std::vector<CacheLayer>& layers = file.cache_layers();
  bool same = layers.size() == info.cache_layers.size();
  for (size_t i = 0; same && i < layers.size(); ++i) {
    const CacheLayer &a = layers[i], &b = info.cache_layers[i];
    same = a.layer == b.layer && a.head == b.head && a.layout == b.layout && a.h_q == b.h_q && a.scale == b.scale;
  }
  return same ? Status()
              : mismatch("%s holds layers of another layout, head count or scale than the model has",
                         file.path().c_str());
}

}  // namespace

Result<std::unique_ptr<Context>> Context::load(Engine& engine, std::shared_ptr<const ContextFile> file,
                                               const LoadOptions& options) {
  return guarded([&]() -> Result<std::unique_ptr<Context>> {
    VESTIGE_TRY(check_match(engine, *file));
    auto sequence = std::make_unique<Sequence>(engine);
    VESTIGE_TRY(sequence->restore(std::move(file), options));
    return std::unique_ptr<Context>(std::move(sequence));
  });
}

Status Sequence::save_parts(TensorSink& sink) const {
  const ConstTensorView tokens(tokens_.data(), DType::kI32, {n_tokens()});
  const ConstTensorView hidden(last_hidden_.data(), DType::kF32, {static_cast<int64_t>(last_hidden_.size())});
  VESTIGE_TRY(sink.put(kTokens, tokens));
  VESTIGE_TRY(sink.put(kLastHidden, hidden));
  for (size_t i = 0; i < caches_.size(); ++i) {
    VESTIGE_TRY(caches_[i]->save(layer_prefix(engine_.model().info().cache_layers[i]), sink));
  }
  return state_->save(kStatePrefix, sink);
}

Status Sequence::save_file(const std::string& path, const ProgressFn& progress) const {
  VESTIGE_TRY(check_whole());
  VESTIGE_TRY(check_finished("save()"));
  VESTIGE_TRY(engine_.stream().synchronize());
  ContextHeader header;
  header.model_identity = engine_.model().info().identity;
  header.model_dir = engine_.model_dir();
  header.tokenizer = engine_.tokenizer().fingerprint();
  header.policy = policy_;
  header.n_tokens = n_tokens();
  header.cache_layers = engine_.model().info().cache_layers;
  return write_context(
      path, header, [this](TensorSink& sink) { return save_parts(sink); }, progress);
}

Status Sequence::restore(std::shared_ptr<const ContextFile> file, const LoadOptions& options) {
  VESTIGE_TRY(prepare(options.policy.value_or(file->policy())));
  if (options.policy && n_queries_wanted() > 0) {
    return unsupported("policy %s makes an index while a document is read, and the file has none of it",
                       policy_.name.c_str());
  }
  const TensorSource& source = file->tensors();
  const std::vector<CacheLayer>& layers = file->cache_layers();
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!options.policy) {
      VESTIGE_TRY(caches_[i]->load(layer_prefix(layers[i]), source));
      continue;
    }
    VESTIGE_ASSIGN(auto policy, create_policy(file->policy(), layers[i].layout));
    VESTIGE_ASSIGN(const auto saved, LayerCache::create(layers[i].layout, layers[i].h_q, layers[i].scale, policy,
                                                        engine_.model().info().cache_layers[i].rotation));
    VESTIGE_TRY(saved->load(layer_prefix(layers[i]), source));
    if (saved->rows_dropped()) {
      return unsupported("%s: its policy %s has dropped the exact rows, so no other can be tried on it",
                         file->path().c_str(), file->policy().name.c_str());
    }
    VESTIGE_TRY(caches_[i]->share_rows(*saved, engine_.stream()));
  }
  for (const auto& cache : caches_) {
    if (cache->n_rows() == file->n_tokens()) continue;
    return data_loss("%s: a layer has %lld rows, want one for each of %lld tokens", file->path().c_str(),
                     static_cast<long long>(cache->n_rows()), static_cast<long long>(file->n_tokens()));
  }
  VESTIGE_TRY(state_->load(kStatePrefix, source));
  const auto d_model = static_cast<int64_t>(last_hidden_.size());
  VESTIGE_ASSIGN(const ConstTensorView hidden, source.get(kLastHidden, DType::kF32, {d_model}));
  std::memcpy(last_hidden_.data(), hidden.data, last_hidden_.size() * sizeof(float));
  VESTIGE_ASSIGN(const ConstTensorView tokens, source.get(kTokens, DType::kI32, {file->n_tokens()}));
  tokens_.assign(tokens.as<int32_t>(), tokens.as<int32_t>() + file->n_tokens());
  const int64_t n_vocab = engine_.model().info().n_vocab;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i] >= 0 && tokens_[i] < n_vocab) continue;
    return data_loss("%s: tokens[%zu] = %d, want [0, %lld)", file->path().c_str(), i, tokens_[i],
                     static_cast<long long>(n_vocab));
  }
  n_computed_ = n_document_ = file->n_tokens();
  queries_ = nullptr;
  ended_ = true;
  file_ = std::move(file);
  if (options.policy) VESTIGE_TRY(settle(options.progress));
  finished_ = true;
  return check_tokens({});
}

}  // namespace vestige
