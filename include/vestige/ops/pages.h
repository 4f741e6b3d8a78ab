#pragma once

// Digests of pages, short runs of consecutive rows, and the scan that picks pages by them. Under NoPE a row's score
// does not depend on its position, so that a box or an enclosing sphere around a page's rows bounds all their scores
// (arXiv:2609.03949v1, Eq. 9). Here a "page" is such a run; the pages of a RowPages are blocks.

#include <cstdint>
#include <span>

#include "vestige/device.h"
#include "vestige/layout.h"
#include "vestige/tensor.h"

namespace vestige {

enum class PageDigest : uint8_t {
  kBox,         ///< largest and smallest number of each coordinate
  kSphere,      ///< centre, the mean row rounded to the row dtype, and the largest distance from it
  kMeanSphere,  ///< the same centre and the mean distance: no bound
};

/// Digests of the pages [first_row, first_row + n_pages * page_rows).
///   kBox: upper, lower = corners, radius = 0     kSphere, kMeanSphere: upper = centre, radius as above
/// For kBox and kSphere the radius is enlarged, and rounded up, by what the float32 sums of scan_pages may miss, so
/// that the scan's bound holds in exact arithmetic. Content that is not scored counts as zero.
/// A page with a number that is not finite gets radius +inf.
struct DigestPagesParams {
  RowPages rows;
  int64_t page_rows = 32;  ///< >= 1; divides rows.page_rows
  int64_t first_row = 0;   ///< a multiple of page_rows
  TensorView upper;        ///< [n_pages, d_row] of the row dtype, out
  TensorView lower = {};   ///< the same, out; absent (rank 0) unless kBox
  TensorView radius;       ///< [n_pages] f32, out
  PageDigest digest = PageDigest::kBox;
};
Status digest_pages_check(const DigestPagesParams& p);

/// Digests of one sequence and layer, in equal blocks.
struct PageSet {
  const void* const* upper = nullptr;   ///< [n_blocks], each [block_pages, d_row]
  const void* const* lower = nullptr;   ///< likewise; null = spheres
  const void* const* radius = nullptr;  ///< [n_blocks], each [block_pages] f32
  int64_t block_pages = 0, page_rows = 0;
  int64_t n_pages = 0;
  DType dtype = DType::kBF16;     ///< of upper and lower
  const uint8_t* kept = nullptr;  ///< [n_pages * page_rows], 1 = attended already; null = none
};

/// Rows of the pages that a head wants. The bound of a page for a head's query q is
///   box:    scale (max(q, 0) . upper + min(q, 0) . lower + ||q|| radius)
///   sphere: scale (q . upper + ||q|| radius)
/// top_k > 0: each head picks its top_k pages of largest bound, the lower page on ties. top_k = 0: a page is picked if
/// its bound is not at or below some head's threshold, so one that is not a number is. Pages without a row to recall
/// are never picked. All rows of picked pages that are not kept are named.
struct ScanPagesParams {
  ConstTensorView q;               ///< [b, h, d_row] f32
  std::span<const PageSet> sets;   ///< [b]
  ConstTensorView threshold = {};  ///< [b, h] f32; +inf = this head picks nothing; absent (rank 0) if top_k > 0
  int64_t top_k = 0;
  TensorView ids;           ///< [b, capacity] i32, out: the first `capacity` rows, ascending
  TensorView n_ids;         ///< [b] i32, out: min(rows, capacity)
  TensorView n_fired;       ///< [b] i32, out: all rows; > capacity means overflow
  TensorView n_pages = {};  ///< [b] i32, out: pages picked; or absent (rank 0)
  float scale = 1.0f;
};
Status scan_pages_check(const ScanPagesParams& p);

}  // namespace vestige
