#pragma once

// One ranking of rows over the key-value heads of a layer. Source: Ada-KV, arXiv:2407.11550, Algorithm 1 with a
// safeguard.

#include <cstdint>
#include <vector>

#include "vestige/policy.h"

namespace vestige::adakv {

/// Heads keep the rows of highest score among those of all heads, as many together as each by itself would; before
/// that each is sure of floor(safeguard n_keep) rows, one at least: its own best. Of equal scores the head that was
/// added first, then the lower position; a score that is not a number is the lowest.
class HeadBudget final : public KeepBudget {
 public:
  explicit HeadBudget(double safeguard) : safeguard_(safeguard) {}
  Result<size_t> add(const ConstTensorView& score, int64_t n_keep, int32_t layer) override;
  int64_t n_keep(size_t number) override;

 private:
  struct Head {
    ConstTensorView score;
    int64_t n_keep = 0;
  };
  void decide();

  double safeguard_;
  std::vector<Head> heads_;
  std::vector<int64_t> n_keep_;  ///< by head, once decided
};

}  // namespace vestige::adakv
