#pragma once

// The archived row that each calibration query must not lose, and how high its bound must come.

#include <vector>

#include "cache/policies/vestige/index_codec.h"

namespace vestige {

/// [n * h]: rows that each query may see, of those that are closed.
std::vector<int32_t> rows_seen(const CodecQueries& c);

struct BestArchived {
  std::vector<int32_t> row;   ///< [n * h]: best archived row the query sees; -1 = none, or not hard
  std::vector<float> target;  ///< [n * h]: its true score; under label rule A the best kept score
};

Result<BestArchived> best_archived(const CodecQueries& c, Stream& stream);

}  // namespace vestige
