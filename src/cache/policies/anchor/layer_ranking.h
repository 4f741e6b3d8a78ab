#pragma once

// Residuals of one layer, whose key-value heads have a cache each: the best of all heads together, as AnchorKV
// (arXiv:2608.02901) ranks them, for the bytes that the heads' own plans add up to.

#include <cstdint>
#include <vector>

#include "cache/policies/anchor/coded_layer.h"
#include "vestige/policy.h"

namespace vestige::anchor {

class LayerRanking final : public LayerFit {
 public:
  /// @param relative utilities over the variance of the head's values, which no scale of values changes; else as they
  /// are
  LayerRanking(const PickSettings& settings, bool relative) : settings_(settings), relative_(relative) {}

  /// A head, in order: what its residuals are worth, and in its plan what it brings along. @param bare of one head
  /// @return its number
  int64_t add(const BareLayer& bare);
  /// Masks of a head, once all are added. Equal utilities: as pick_residuals, the lower head first.
  /// @param head a number from add()
  ResidualPick take(int64_t head);

 private:
  struct Head {
    Head(const BytePlan& its_plan, std::vector<uint8_t> anchors, std::vector<float> key, std::vector<float> value,
         std::vector<float> cosine)
        : plan(its_plan),
          is_anchor(std::move(anchors)),
          key_utility(std::move(key)),
          value_utility(std::move(value)),
          key_cosine(std::move(cosine)) {}
    BytePlan plan;
    std::vector<uint8_t> is_anchor;
    std::vector<float> key_utility, value_utility, key_cosine;
  };
  void rank();

  PickSettings settings_;
  bool relative_, ranked_ = false;
  std::vector<Head> heads_;
  ResidualPick pick_;  ///< masks of all heads
};

}  // namespace vestige::anchor
