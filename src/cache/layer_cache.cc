#include <algorithm>
#include <cmath>
#include <utility>

#include "cache/block_cache.h"
#include "vestige/cache.h"

namespace vestige {

void StepRecord::add(const StepRecord& other) {
  n_steps += other.n_steps;
  n_kept += other.n_kept;
  n_tail += other.n_tail;
  n_archived += other.n_archived;
  n_recalled += other.n_recalled;
  n_coded += other.n_coded;
  n_overflowed += other.n_overflowed;
  n_gated += other.n_gated;
  n_capped += other.n_capped;
  for (int i = 0; i < 2; ++i) n_scanned[i] += other.n_scanned[i];
  read_bytes += other.read_bytes;
  archive_bytes += other.archive_bytes;
  full_bytes += other.full_bytes;
  omitted_max = std::max(omitted_max, other.omitted_max);
  omitted_sum += other.omitted_sum;
  error_max = std::max(error_max, other.error_max);
  error_sum += other.error_sum;
  attend_us += other.attend_us;
}

Result<std::unique_ptr<LayerCache>> LayerCache::create(const RowLayout& layout, int32_t h_q, float scale,
                                                       std::shared_ptr<const CachePolicy> policy,
                                                       KeyRotation rotation) {
  if (policy == nullptr) return invalid_argument("policy is null");
  if (layout.d_content < 1) return invalid_argument("d_content = %d, want at least 1", layout.d_content);
  if (!layout.scored_content && layout.d_branch < 1) {
    return invalid_argument("d_branch = %d, want at least 1 where content is not scored", layout.d_branch);
  }
  if (layout.d_branch < 0) return invalid_argument("d_branch = %d, want at least 0", layout.d_branch);
  if (layout.dtype != DType::kBF16 && layout.dtype != DType::kF32) {
    return invalid_argument("row dtype = %s, want BF16 or F32", dtype_name(layout.dtype));
  }
  if (h_q < 1) return invalid_argument("h_q = %d, want at least 1", h_q);
  if (!(scale > 0) || !std::isfinite(scale)) return invalid_argument("scale = %g, want above 0", scale);
  if (2 * rotation.frequencies.size() > static_cast<size_t>(layout.d_branch)) {
    return invalid_argument("rotation has %zu frequencies, want at most d_branch / 2 = %d", rotation.frequencies.size(),
                            layout.d_branch / 2);
  }
  return guarded([&]() -> Result<std::unique_ptr<LayerCache>> {
    auto cache = std::make_unique<BlockCache>(layout, h_q, scale, std::move(policy), std::move(rotation));
    VESTIGE_TRY(cache->init());
    return std::unique_ptr<LayerCache>(std::move(cache));
  });
}

}  // namespace vestige
