#pragma once

// The one-sided form, for latent rows [content ; branch], which serve as key and value of all heads: what its codes
// take, to the byte. Nearest anchors explain too little of such rows (docs/policies/anchor.md, "Latent rows"), so the
// coarse code is a projection of the content; a residual of 2 bits is bought for some rows.

#include <cstdint>
#include <span>

#include "vestige/layout.h"
#include "vestige/status.h"

namespace vestige::anchor {

/// Bytes of one vector in a rotated basis (encode_rotated): `bits` a coordinate, and an f16 scale for each power of two
/// that d is the sum of. @param d a multiple of 8
int64_t rotated_bytes(int64_t d, int32_t bits);

/// What a coded row is made of.
struct LatentForm {
  static constexpr int32_t kBranchBits = 2, kResidualBits = 2;
  int64_t d_content = 0, d_branch = 0;  ///< multiples of 8; d_content >= 16
  int64_t rank = 8;                     ///< coordinates of the projected content: a power of two, 8 to d_content / 2
  int32_t bits = 2;                     ///< of each of them: 2 to 4

  int64_t d_row() const { return d_content + d_branch; }
  /// Of every row: the projected content, and the branch.
  int64_t coarse_bytes() const;
  /// Of a row that has one: content and branch apart.
  int64_t residual_bytes() const;
  /// Mean of the rows and basis of the projection, bf16; once a sequence and layer.
  int64_t basis_bytes() const { return 2 * (d_row() + rank * d_content); }
  bool operator==(const LatentForm&) const = default;
};

/// All bytes of n rows, n_residuals of them with a residual. @param with_basis whether these rows pay for it
int64_t latent_bytes(const LatentForm& form, int64_t n, int64_t n_residuals, bool with_basis);

/// Residuals that fit: 0 to n. 0 too where even none fits.
int64_t affordable_residuals(const LatentForm& form, int64_t n, int64_t budget_bytes, bool with_basis);

/// Rank and bits that leave least of the rows' energy within the budget; the smallest form if none fits.
/// @param variance [d_content] energy of the content by coordinate of the basis, falling
LatentForm choose_form(const RowLayout& layout, std::span<const float> variance, int64_t n, int64_t budget_bytes);

/// The highest ratio that the smallest form reaches without residuals, its basis not counted.
double highest_latent_ratio(const RowLayout& layout);

/// @return Unsupported unless widths are multiples of 8, content 16 to 4096 and branch 0 to 4096 wide
Status check_latent_layout(const RowLayout& layout);

}  // namespace vestige::anchor
