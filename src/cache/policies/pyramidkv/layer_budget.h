#pragma once

// Budgets of rows that fall from the first layer to the last. Source: PyramidKV, arXiv:2406.02069, Section 4.2.

#include <cstdint>
#include <vector>

#include "vestige/policy.h"

namespace vestige::pyramidkv {

/// Rows of layer l of n_layers:
///   last - first linearly, from most = 2 n_keep - least to least = n_keep / beta; where most would be more than
///   n_closed it is n_closed, and least = 2 n_keep - n_closed.
/// Rounded so that layers l and n_layers - 1 - l keep 2 n_keep together, the middle one n_keep.
int64_t layer_rows(int64_t n_keep, int64_t n_closed, double beta, int32_t layer, int32_t n_layers);

class LayerBudget final : public KeepBudget {
 public:
  explicit LayerBudget(double beta) : beta_(beta) {}
  Result<size_t> add(const ConstTensorView& score, int64_t n_keep, int32_t layer) override;
  int64_t n_keep(size_t number) override;

 private:
  struct Cache {
    int64_t n_keep, n_closed;
    int32_t layer;
  };
  double beta_;
  std::vector<Cache> caches_;
};

}  // namespace vestige::pyramidkv
