#pragma once

// VestigeKV: which rows stay attended, and which archived rows join a step.
// Source: arXiv:2609.03949v1, Eq. 3 (salience), Eq. 4 (recall score), section on calibration.

#include <span>

#include "vestige/device.h"
#include "vestige/layout.h"
#include "vestige/tensor.h"

namespace vestige {

/// Salience of each row of one closed block: how far its branch is from its own low-pass along the block,
///   score[u] = || r_u - lowpass(r)_u ||_2,  lowpass = the first `bandwidth` real-FFT bins, by projection
/// on their 2 * bandwidth - 1 orthonormal cosines and sines. Deterministic.
struct ScoreRowsParams {
  ConstTensorView branch;  ///< [n, d_branch] bf16 or f32; row stride free; n >= 1
  TensorView score;        ///< [n] f32, out
  int32_t bandwidth = 16;  ///< in [1, n / 2] (or 1)
};
Status score_rows_check(const ScoreRowsParams& p);

/// Ids of the n_keep rows of largest score, plus rows 0 .. n_sinks - 1, ascending, each once. Equal scores:
/// the lower id wins. Sinks do not use up n_keep. NaN scores count as -inf.
struct SelectRowsParams {
  ConstTensorView score;  ///< [n] f32
  int64_t n_keep = 0;     ///< in [0, n]
  int64_t n_sinks = 0;    ///< in [0, n]
  TensorView ids;         ///< [>= min(n, n_keep + n_sinks)] i32, out
  TensorView n_ids;       ///< [1] i32, out
};
Status select_rows_check(const SelectRowsParams& p);

/// Index entries of rows: sketch = V c rounded to f16, residual = || c - V^T (V c) ||_2.
/// Content may be of any size: an entry of V c past 65504 (f16's largest) is stored as +-65504, one that is not a
/// number as it is, and the row's residual is +inf then: scan_archive fires for it whatever the query.
struct SketchRowsParams {
  ConstTensorView content;  ///< [n, d_content] bf16 or f32; row stride free
  ConstTensorView basis;    ///< V: [r, d_content] f32, orthonormal rows
  TensorView sketch;        ///< [n, r] f16, out
  TensorView residual;      ///< [n] f32, out
};
Status sketch_rows_check(const SketchRowsParams& p);

/// V = the top-r eigenvectors, largest first, of the covariance of centred samples. Sign: the entry of
/// largest magnitude in each row is positive. Deterministic for any number of threads.
struct FitBasisParams {
  ConstTensorView x;  ///< [n, d] f32; row stride free; n >= 1
  TensorView basis;   ///< [r, d] f32, out; r <= d
};
Status fit_basis_check(const FitBasisParams& p);

/// Recall index of one sequence and layer, in the pages of its RowPages (closed rows only).
struct RecallPages {
  const void* const* branch = nullptr;    ///< [n_pages], each [page_rows, d_branch] of the row dtype
  const void* const* sketch = nullptr;    ///< [n_pages], each [page_rows, r] f16
  const void* const* residual = nullptr;  ///< [n_pages], each [page_rows] f32
  int64_t page_rows = 0;
  int64_t n_rows = 0;
  int32_t d_branch = 0, rank = 0;
  DType branch_dtype = DType::kBF16;
};

/// One sequence's scan: rows whose certified score passes a head's threshold.
///   idx = scale (q_r . r_u + f16(V q_c) . sketch_u),  cert = scale || q_c - V^T V q_c || residual_u / sqrt(d_c - r)
///   row u fires if idx + z cert > threshold[h] for some head h and u is not kept
/// Branch queries are rounded to the row dtype and sketch queries to f16 first; sums are float32 in a
/// fixed order. d_c = r gives cert = 0. When in doubt a row fires: scores that are not a number do, and every row
/// does for a head whose f16(V q_c) is not finite.
struct ScanSet {
  RecallPages pages;
  ConstTensorView basis;          ///< [r, d_content] f32
  const uint8_t* kept = nullptr;  ///< [n_rows], 1 = attended already; null = none
  float z = 8.0f;
};
struct ScanArchiveParams {
  ConstTensorView q;              ///< [b, h, d_content + d_branch] f32
  std::span<const ScanSet> sets;  ///< [b]
  ConstTensorView threshold;      ///< [b, h] f32; +inf = this head never fires, -inf = always
  TensorView ids;                 ///< [b, capacity] i32, out: the first `capacity` fired ids, ascending
  TensorView n_ids;               ///< [b] i32, out: min(fired, capacity)
  TensorView n_fired;             ///< [b] i32, out: all fired; > capacity means overflow
  float scale = 1.0f;
};
Status scan_archive_check(const ScanArchiveParams& p);

/// For calibration: the best true score of each query over the rows it may see and that `mask` selects.
///   best[i] = max_u scale q_i . [c_u ; r_u] over u < limit[i] with mask[u] == want; arg[i] = the lowest such u
/// None: best = -inf, arg = -1. On request the entropy, in nats, of the softmax over the same scores; 0 for none or one
/// row, not a number if a score is not finite.
struct BestRowsParams {
  ConstTensorView q;  ///< [n, d_row] f32
  RowPages rows;
  ConstTensorView limit;          ///< [n] i32
  const uint8_t* mask = nullptr;  ///< [rows.n_rows]; null = all rows
  uint8_t want = 1;
  TensorView best;          ///< [n] f32, out
  TensorView arg;           ///< [n] i32, out
  TensorView entropy = {};  ///< [n] f32, out; or absent (rank 0)
  float scale = 1.0f;
};
Status best_rows_check(const BestRowsParams& p);

}  // namespace vestige
