#pragma once

// What both forms of AnchorKV have in common in files: names of a segment's arrays, and a row of sizes for each.

#include <cstring>
#include <string>

#include "vestige/policy.h"

namespace vestige::anchor {

inline std::string name_of(const std::string& prefix, size_t segment, const char* array) {
  return prefix + "anchor" + std::to_string(segment) + "_" + array;
}

/// Calls load(sizes, first) for each segment, in order, of the rows [first, end): sizes [n_sizes] as the file has them,
/// of which the second is the segment's rows, that load checks; `first` is the row it must begin with.
/// @return DataLoss unless the segments end at `end`
template <int64_t n_sizes, class Load>
Status load_segments(const std::string& prefix, const TensorSource& source, int64_t first, int64_t end,
                     const Load& load) {
  VESTIGE_ASSIGN(const ConstTensorView view, source.get(prefix + "anchor_sizes", DType::kI64, {-1, n_sizes}));
  for (int64_t i = 0; i < view.dim(0); ++i) {
    int64_t sizes[n_sizes];
    std::memcpy(sizes, view.as<int64_t>() + i * n_sizes, sizeof sizes);
    VESTIGE_TRY(load(sizes, first));
    first += sizes[1];
  }
  if (first == end) return {};
  return data_loss("%sanchor_sizes: rows up to %lld, want %lld", prefix.c_str(), static_cast<long long>(first),
                   static_cast<long long>(end));
}

}  // namespace vestige::anchor
