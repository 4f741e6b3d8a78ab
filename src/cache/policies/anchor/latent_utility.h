#pragma once

// What the residual of a latent row is worth: the rules of utility.h on rows that are key and value at once.

#include <cstdint>
#include <string>
#include <vector>

#include "vestige/device.h"
#include "vestige/tensor.h"

namespace vestige::anchor {

struct LatentTokens {
  ConstTensorView rows;  ///< [n_all, d_row] f32; the first n are coded, the queries see all up to their positions
  ConstTensorView left;  ///< [n, d_row] f32: row less what the coarse code stands for
  int64_t d_content = 0;
  ConstTensorView queries = {};           ///< [m, d_row] f32, absorbed; empty: none is known
  std::vector<int32_t> q_positions = {};  ///< [m] row of `rows`
  ConstTensorView value_gram = {};        ///< [d_content, d_content] f32: || v ||^2 = v^T G v; empty: plain lengths
  float scale = 1.0f;
  uint64_t seed = 0;
};

/// Sum of what the rule gives the key and the value of each coded row. Without queries every rule but `random` is the
/// length of what is left.
/// @return [n]; InvalidArgument for an unknown rule
Result<std::vector<float>> latent_utility(const std::string& rule, const LatentTokens& tokens, Stream& stream);

}  // namespace vestige::anchor
