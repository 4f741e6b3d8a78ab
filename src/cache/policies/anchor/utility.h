#pragma once

// What a residual is worth: rules that give every coded token of a head a utility on either side, in squared output
// error. AnchorKV (arXiv:2608.02901), Eq. 6, and rules of our own. One line in utility.cc adds one.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "vestige/status.h"

namespace vestige::anchor {

/// What the rules see of one head: n coded tokens, m observed queries (rows of the arrays [m, n]).
struct HeadView {
  int64_t m = 0, n = 0;
  std::span<const float> weight;         ///< [m, n] exact softmax weight a
  std::span<const float> logit_error;    ///< [m, n] e: logit with the coarse key less the exact one, scale included
  std::span<const float> value_spread;   ///< [m, n] || V_t - y_w ||^2, y_w the exact output
  std::span<const float> value_error;    ///< [n] || r^V ||^2
  std::span<const float> key_error;      ///< [n] mean over the queries, wherever they stand, of (scale q . r^K)^2
  std::span<const float> value_outlier;  ///< [n] || V_t - mean V ||^2
  uint64_t seed = 0;                     ///< of this head and layer
};

/// (a' - a) / (1 - a) for a token of weight a whose logit moves by e: dy = this * (V - y), exactly.
double weight_shift(double a, double e);

struct UtilityRule {
  const char* name;
  const char* sentence;
  const char* source;
  bool measures;  ///< reads value_error, key_error and value_outlier; else they, and what weighs reads, may be empty
  bool weighs;    ///< reads weight, logit_error and value_spread; else they may be empty
  /// key, value: [n], out.
  void (*score)(const HeadView& head, std::span<float> key, std::span<float> value);
};

std::span<const UtilityRule> utility_rules();
/// @return InvalidArgument naming the rules there are
Result<const UtilityRule*> find_utility(std::string_view name);

}  // namespace vestige::anchor
