#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/cpu_ops.h"

namespace vestige::cpu {

namespace {

/// A number that is smaller the better the row: score first (descending), then id (ascending).
uint64_t rank_key(float score, int64_t id) {
  if (std::isnan(score)) score = -std::numeric_limits<float>::infinity();
  if (score == 0.0f) score = 0.0f;  // -0 and +0 are equal scores
  const uint32_t bits = std::bit_cast<uint32_t>(score);
  const uint32_t ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(~ascending) << 32 | static_cast<uint64_t>(id);
}

}  // namespace

Status select_rows(const SelectRowsParams& p, Stream&) {
  const int64_t n = p.score.dim(0);
  std::vector<uint64_t> keys(static_cast<size_t>(n));
  for (int64_t u = 0; u < n; ++u) keys[static_cast<size_t>(u)] = rank_key(p.score.as<float>()[u], u);
  if (p.n_keep < n) std::nth_element(keys.begin(), keys.begin() + p.n_keep, keys.end());
  // Sinks that were not chosen on their score go first; ids of both then lie in one sorted list.
  int32_t* ids = p.ids.as<int32_t>();
  int64_t n_ids = 0;
  for (int64_t i = 0; i < p.n_keep; ++i) {
    const int32_t id = static_cast<int32_t>(keys[static_cast<size_t>(i)] & 0xffffffffu);
    if (id >= p.n_sinks) ids[n_ids++] = id;
  }
  std::sort(ids, ids + n_ids);
  std::copy_backward(ids, ids + n_ids, ids + n_ids + p.n_sinks);
  for (int64_t u = 0; u < p.n_sinks; ++u) ids[u] = static_cast<int32_t>(u);
  *p.n_ids.as<int32_t>() = static_cast<int32_t>(n_ids + p.n_sinks);
  return {};
}

}  // namespace vestige::cpu
