#pragma once

// The rows and absorbed queries of a text under full attention: what anatomy, merge_census and the oracle look at.

#include <span>
#include <vector>

#include "vestige/engine.h"

namespace vestige::eval {

struct Reading {
  struct Layer {
    std::unique_ptr<LayerCache> cache;  ///< every row, under the policy full
    std::vector<float> queries;         ///< [n_queries, h_q, d_row], of the last tokens
  };
  std::vector<Layer> layers;
  int64_t n_queries = 0;
};

/// @param n_queries in [0, tokens.size()]
Result<Reading> read_rows(Engine& engine, std::span<const int32_t> tokens, int64_t n_queries,
                          const ProgressFn& progress);

/// All rows of a cache, widened: content [n, d_content], branch [n, d_branch].
struct WideRows {
  std::vector<float> content, branch;
};
WideRows widen_rows(const LayerCache& cache);

}  // namespace vestige::eval
