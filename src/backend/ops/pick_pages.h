#pragma once

// From the bounds of pages to the rows that are recalled; the same for every CPU backend.

#include <cstdint>

#include "vestige/ops/pages.h"

namespace vestige {

/// Picks the pages of sequence `b` and writes its ids and counts.
/// @param bound [h, n_pages] of this sequence
void pick_pages(const ScanPagesParams& p, int64_t b, const float* bound);

/// What a radius must grow by to cover the float32 sums of a scan over rows that reach `reach` from the origin, and
/// that, rounded up. Each of at most d_row + 8 roundings is at most 2^-24 of || q || reach; twice that is allowed.
float covering_radius(double radius, double reach, int64_t d_row);

}  // namespace vestige
