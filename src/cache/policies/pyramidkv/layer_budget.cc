#include "cache/policies/pyramidkv/layer_budget.h"

#include <algorithm>
#include <cmath>

namespace vestige::pyramidkv {

int64_t layer_rows(int64_t n_keep, int64_t n_closed, double beta, int32_t layer, int32_t n_layers) {
  const int32_t mirror = n_layers - 1 - layer;
  if (layer == mirror) return n_keep;
  if (layer > mirror) return 2 * n_keep - layer_rows(n_keep, n_closed, beta, mirror, n_layers);
  const double most = std::min(2 * double(n_keep) - double(n_keep) / beta, double(n_closed));
  const double least = 2 * double(n_keep) - most;
  return std::llround(most - (most - least) * layer / (n_layers - 1));
}

Result<size_t> LayerBudget::add(const ConstTensorView& score, int64_t n_keep, int32_t layer) {
  caches_.push_back({n_keep, score.dim(0), layer});
  return caches_.size() - 1;
}

int64_t LayerBudget::n_keep(size_t number) {
  const Cache& cache = caches_[number];
  return layer_rows(cache.n_keep, cache.n_closed, beta_, cache.layer, caches_.back().layer + 1);
}

}  // namespace vestige::pyramidkv
