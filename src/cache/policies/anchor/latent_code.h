#pragma once

// Latent rows as codes: x = mean + [basis t ; branch] (+ residual), t and branch in a rotated basis, a few bits each.

#include <cstdint>
#include <vector>

#include "cache/policies/anchor/latent_plan.h"
#include "vestige/device.h"
#include "vestige/ops.h"

namespace vestige::anchor {

/// What all rows of a sequence and layer share.
struct LatentBasis {
  LatentForm form;
  std::vector<uint16_t> mean;   ///< [d_row] bf16
  std::vector<uint16_t> basis;  ///< [d_content, rank] bf16
  int64_t n_bytes() const { return 2 * static_cast<int64_t>(mean.size() + basis.size()); }
};

/// And what turns content into coordinates: t = forward (content - mean). Not stored.
struct FittedBasis {
  LatentBasis basis;
  std::vector<float> forward;  ///< [rank, d_content]
};

/// A projection that loses least of the rows in the metric of queries and values (as fit_transform has it), and a form
/// that the budget buys.
/// @param rows    [n, d_row] f32, finite, n >= 1
/// @param queries [m, d_row] f32; empty: any direction alike
/// @param value_gram [d_content, d_content] f32, or empty
Result<FittedBasis> fit_latent_basis(const RowLayout& layout, const ConstTensorView& rows,
                                     const ConstTensorView& queries, const ConstTensorView& value_gram,
                                     int64_t budget_bytes);

/// The forward map of least squares for a basis that came from a file or an earlier fit.
FittedBasis with_least_squares(const LatentBasis& basis);

/// Rows `first`, first + 1, ... of a sequence.
struct LatentSegment {
  int64_t first = 0, n = 0, n_residuals = 0;
  std::vector<uint8_t> codes;      ///< [n, coarse_bytes]: t, then branch
  std::vector<uint64_t> mask;      ///< [ceil(n / 64)] rows with a residual
  std::vector<uint8_t> residuals;  ///< [n_residuals, residual_bytes]: content, then branch, in order of rows
  int64_t n_bytes() const { return static_cast<int64_t>(codes.size() + 8 * mask.size() + residuals.size()); }
};

/// Coarse codes, no residuals. @param rows [n, d_row] f32, finite. Same bytes for any number of threads.
/// @param left [n, d_row] f32, out: what the coarse code leaves of each row
Result<LatentSegment> code_coarse(const FittedBasis& basis, const ConstTensorView& rows, const TensorView& left,
                                  Stream& stream);
/// Adds residuals to the rows of `mask`. @param left as code_coarse gave it
Status add_latent_residuals(const LatentForm& form, const ConstTensorView& left, std::vector<uint64_t> mask,
                            LatentSegment* segment, Stream& stream);

/// Rows [begin, begin + n) of a segment. @param n_before residuals of the rows before
/// @param out [n, d_row] f32
Status decode_latent(const LatentBasis& basis, const LatentSegment& segment, int64_t begin, int64_t n, int64_t n_before,
                     const TensorView& out, Stream& stream);
int64_t residuals_in(const LatentSegment& segment, int64_t begin, int64_t n);

/// For a segment that comes from a file: whether mask and number of residuals agree, and scales are finite, 0 or more.
bool check_latent(const LatentForm& form, const LatentSegment& segment);

}  // namespace vestige::anchor
