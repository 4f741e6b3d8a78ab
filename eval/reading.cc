#include "eval/reading.h"

#include <algorithm>

#include "base/half.h"

namespace vestige::eval {

namespace {

Status create_layers(Engine& engine, std::vector<Reading::Layer>* layers) {
  PolicyConfig full;
  full.name = "full";
  full.ratio = 1;
  for (const CacheLayer& layer : engine.model().info().cache_layers) {
    VESTIGE_ASSIGN(auto policy, create_policy(full, layer.layout));
    VESTIGE_ASSIGN(layers->emplace_back().cache,
                   LayerCache::create(layer.layout, layer.h_q, layer.scale, policy, layer.rotation));
  }
  return {};
}

/// Absorbs the queries of tile tokens [skip, t) and appends them.
Status keep_queries(Engine& engine, size_t i, const ConstTensorView& q, int64_t skip, Reading::Layer* layer) {
  const int64_t n = q.dim(0) - skip, width = layer->cache->h_q() * layer->cache->layout().d_row();
  const auto at = layer->queries.size();
  layer->queries.resize(at + static_cast<size_t>(n * width));
  const TensorView out(layer->queries.data() + at, DType::kF32,
                       {n, layer->cache->h_q(), layer->cache->layout().d_row()});
  return engine.model().absorb(i, q.slice(skip, n), out, engine.stream());
}

float widened(const void* data, DType dtype, int64_t at) {
  return dtype == DType::kF32 ? static_cast<const float*>(data)[at]
                              : bf16_to_f32(static_cast<const uint16_t*>(data)[at]);
}

}  // namespace

Result<Reading> read_rows(Engine& engine, std::span<const int32_t> tokens, int64_t n_queries,
                          const ProgressFn& progress) {
  Reading reading;
  reading.n_queries = n_queries;
  VESTIGE_TRY(create_layers(engine, &reading.layers));
  VESTIGE_ASSIGN(const auto state, engine.model().create_state());
  std::vector<LayerCache*> caches;
  for (const Reading::Layer& layer : reading.layers) caches.push_back(layer.cache.get());
  std::vector<float> hidden(static_cast<size_t>(engine.model().info().d_model));
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  for (int64_t at = 0; at < n_tokens; at += Model::kTileTokens) {
    const int64_t n = std::min(Model::kTileTokens, n_tokens - at);
    const int64_t skip = std::max<int64_t>(0, n_tokens - n_queries - at);
    Status tapped;
    ForwardParams p;
    p.tokens = tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(n));
    p.position = at;
    p.state = state.get();
    p.caches = caches;
    p.prefill = true;
    p.last_hidden = TensorView(hidden.data(), DType::kF32, {static_cast<int64_t>(hidden.size())});
    p.query_tap = [&](size_t i, const ConstTensorView& q) {
      if (tapped.ok() && skip < n) tapped = keep_queries(engine, i, q, skip, &reading.layers[i]);
    };
    VESTIGE_TRY(engine.model().forward(p, engine.stream()));
    VESTIGE_TRY(tapped);
    if (progress && !progress(at + n, n_tokens)) return cancelled("interrupted");
  }
  VESTIGE_TRY(engine.stream().synchronize());
  return reading;
}

WideRows widen_rows(const LayerCache& cache) {
  const RowPages pages = cache.pages();
  const RowLayout& layout = cache.layout();
  WideRows out;
  out.content.reserve(static_cast<size_t>(pages.n_rows * layout.d_content));
  out.branch.reserve(static_cast<size_t>(pages.n_rows * layout.d_branch));
  for (int64_t u = 0; u < pages.n_rows; ++u) {
    const int64_t page = u / pages.page_rows, row = u % pages.page_rows;
    for (int64_t j = 0; j < layout.d_content; ++j) {
      out.content.push_back(widened(pages.content[page], layout.dtype, row * pages.content_stride + j));
    }
    for (int64_t j = 0; j < layout.d_branch; ++j) {
      out.branch.push_back(widened(pages.branch[page], layout.dtype, row * pages.branch_stride + j));
    }
  }
  return out;
}

}  // namespace vestige::eval
