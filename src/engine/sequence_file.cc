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
    same = layers[i].layer == info.cache_layers[i].layer && layers[i].layout == info.cache_layers[i].layout;
  }
  return same ? Status() : mismatch("%s holds rows of another layout than the model has", file.path().c_str());
}

/// All rows of `from` into the empty `to`, bit for bit.
Status copy_rows(const LayerCache& from, LayerCache& to, Stream& stream) {
  const RowPages pages = from.pages();
  const RowLayout& layout = from.layout();
  const size_t element = dtype_bytes(layout.dtype);
  const auto copy = [&](const void* const* table, int64_t row, int64_t n, int32_t width, const TensorView& out) {
    const auto* page = static_cast<const std::byte*>(table[row / pages.page_rows]);
    const size_t row_bytes = element * static_cast<size_t>(width);
    std::memcpy(out.data, page + static_cast<size_t>(row % pages.page_rows) * row_bytes,
                row_bytes * static_cast<size_t>(n));
  };
  for (int64_t row = 0; row < pages.n_rows;) {
    const int64_t n = std::min({pages.n_rows - row, to.rows_until_close(), pages.page_rows - row % pages.page_rows});
    TensorView content, branch;
    VESTIGE_TRY(to.reserve(n, &content, &branch));
    copy(pages.content, row, n, layout.d_content, content);
    if (layout.d_branch > 0) copy(pages.branch, row, n, layout.d_branch, branch);
    VESTIGE_TRY(to.commit(n, stream));
    row += n;
  }
  return {};
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
  if (!finished_) return invalid_argument("save() before finish_reading()");
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
  if (options.policy && !rings_.empty()) {
    return unsupported("policy %s has a recall index fitted to the prompt's queries, which a file does not hold",
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
    VESTIGE_ASSIGN(const auto saved, LayerCache::create(layers[i].layout, layers[i].h_q, layers[i].scale, policy));
    VESTIGE_TRY(saved->load(layer_prefix(layers[i]), source));
    VESTIGE_TRY(copy_rows(*saved, *caches_[i], engine_.stream()));
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
  n_computed_ = file->n_tokens();
  rings_.clear();
  ended_ = finished_ = true;
  file_ = std::move(file);
  return check_tokens({});
}

}  // namespace vestige
