#pragma once

// Trials of tasks that look at the model: corpus text, nothing asked.

#include "eval/task.h"

namespace vestige::eval {

inline Result<Trial> make_corpus_document(TrialSource& source) {
  Trial trial;
  VESTIGE_ASSIGN(trial.document, source.corpus_run(source.n_document(0)));
  return trial;
}

inline std::string layer_label(const Engine& engine, size_t i) {
  const CacheLayer& cache = engine.model().info().cache_layers[i];
  const std::string layer = "layer " + std::to_string(cache.layer);
  return cache.head < 0 ? layer + ": " : layer + " head " + std::to_string(cache.head) + ": ";
}

}  // namespace vestige::eval
