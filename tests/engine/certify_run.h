#pragma once

// One document read and decoded by a real model, every step of every layer and head checked (checked_cache.h).

#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/cache/checked_cache.h"
#include "vestige/engine.h"

namespace vestige::testing {

struct CertifyRun {
  const char* kind;  ///< "needle", "records" or "text"
  uint64_t seed = 0;
  int64_t n_document = 3000, n_steps = 16;  ///< tokens; steps are the question's tokens, then greedy ones
  std::map<std::string, double> settings = {};
};

/// Text of the project's own documents, from a place that the seed picks.
inline std::string prose(const std::string& source_dir, uint64_t seed, size_t n_bytes) {
  std::string all;
  for (const char* name : {"README.md", "docs/architecture.md", "docs/policies/vestige.md", "docs/formats.md",
                           "CONTRIBUTING.md", "docs/policies/baselines.md"}) {
    std::ifstream file(source_dir + "/" + name, std::ios::binary);
    all.append(std::istreambuf_iterator<char>(file), {});
  }
  if (all.empty()) return std::string(n_bytes, ' ');
  std::string out = all.substr(seed * 7919 % all.size());
  while (out.size() < n_bytes) out += all;
  return out;
}

/// Document (cut to n_document tokens) and question.
inline Status make_document(const Tokenizer& tokenizer, const std::string& source_dir, const CertifyRun& run,
                            std::vector<int32_t>* document, std::vector<int32_t>* question) {
  std::mt19937_64 rng(run.seed);
  const auto number = [&] { return std::to_string(10000 + rng() % 90000); };
  const auto n_bytes = static_cast<size_t>(8 * run.n_document);
  std::string text, asked = "\n";
  if (std::string_view(run.kind) == "records") {
    std::string key;
    for (int i = 0; text.size() < n_bytes; ++i) {
      const std::string k = number();
      if (i == 40) key = k;
      text += "Record " + k + ": the value is " + number() + ".\n";
    }
    asked += "Record " + key + ": the value is";
  } else {
    text = prose(source_dir, run.seed, n_bytes);
    if (std::string_view(run.kind) == "needle") {
      text.insert(static_cast<size_t>(run.n_document), "\nThe secret passcode for Ljubljana is " + number() + ".\n");
      asked += "Question: what is the secret passcode for Ljubljana?\nAnswer:";
    }
  }
  VESTIGE_TRY(tokenizer.encode(text, document));
  document->resize(std::min(document->size(), static_cast<size_t>(run.n_document)));
  return tokenizer.encode(asked, question);
}

inline Result<Checks> certify_run(const Model& model, const Tokenizer& tokenizer, const std::string& source_dir,
                                  const CertifyRun& run, Stream& stream) {
  const ModelInfo& info = model.info();
  PolicyConfig config;
  config.block_rows = 1024;
  config.settings = run.settings;
  std::vector<std::unique_ptr<CheckedCache>> caches;
  std::vector<LayerCache*> pointers;
  for (const CacheLayer& layer : info.cache_layers) {
    VESTIGE_ASSIGN(auto policy, create_policy(config, layer.layout));
    VESTIGE_ASSIGN(auto cache, LayerCache::create(layer.layout, layer.h_q, layer.scale, std::move(policy)));
    caches.push_back(std::make_unique<CheckedCache>(std::move(cache)));
    pointers.push_back(caches.back().get());
  }
  std::vector<int32_t> document, tokens;
  VESTIGE_TRY(make_document(tokenizer, source_dir, run, &document, &tokens));
  VESTIGE_ASSIGN(const std::unique_ptr<ModelState> state, model.create_state());
  std::vector<float> last(static_cast<size_t>(info.d_model)), logits(static_cast<size_t>(info.n_vocab));
  std::vector<std::vector<float>> queries(caches.size());  // of the last tile
  std::vector<int64_t> n_queries(caches.size()), width(caches.size());
  ForwardParams p;
  p.state = state.get();
  p.caches = pointers;
  p.prefill = true;
  p.query_tap = [&](size_t i, const ConstTensorView& q) {
    n_queries[i] = std::min<int64_t>(q.dim(0), 256);
    width[i] = q.dim(2);
    const ConstTensorView tail = q.slice(q.dim(0) - n_queries[i], n_queries[i]);
    queries[i].assign(tail.as<float>(), tail.as<float>() + tail.n_elements());
  };
  p.last_hidden = TensorView(last.data(), DType::kF32, {info.d_model});
  for (size_t at = 0; at < document.size(); at += Model::kTileTokens) {
    p.tokens = std::span(document).subspan(at, std::min<size_t>(Model::kTileTokens, document.size() - at));
    p.position = static_cast<int64_t>(at);
    VESTIGE_TRY(model.forward(p, stream));
  }
  for (size_t i = 0; i < caches.size(); ++i) {
    const int64_t h = caches[i]->h_q(), d = caches[i]->layout().d_row(), c = caches[i]->layout().d_content;
    std::vector<float> absorbed(static_cast<size_t>(n_queries[i] * h * d)), gram(static_cast<size_t>(c * c));
    const TensorView out(absorbed.data(), DType::kF32, {n_queries[i], h, d}), of(gram.data(), DType::kF32, {c, c});
    const ConstTensorView q(queries[i].data(), DType::kF32, {n_queries[i], h, width[i]});
    VESTIGE_TRY(model.absorb(i, q, out, stream));
    VESTIGE_TRY(model.value_gram(i, of, stream));
    VESTIGE_TRY(caches[i]->fit_recall(out, stream, of, nullptr));
  }
  p.prefill = false;
  p.query_tap = nullptr;
  for (int64_t i = 0; i < run.n_steps; ++i) {
    p.tokens = std::span(tokens).subspan(static_cast<size_t>(i), 1);
    p.position = static_cast<int64_t>(document.size()) + i;
    VESTIGE_TRY(model.forward(p, stream));
    if (static_cast<size_t>(i) + 1 < tokens.size()) continue;
    const TensorView view(logits.data(), DType::kF32, {info.n_vocab});
    VESTIGE_TRY(model.logits(p.last_hidden, view, stream));
    tokens.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
  }
  Checks all;
  for (const auto& cache : caches) all.add(cache->checks);
  return all;
}

}  // namespace vestige::testing
