#pragma once

// Coded rows: a few bits for each coordinate of a row in a transform made for its sequence, and error norms that turn
// the coded score into a bound. What a recall index reads instead of rows.
// The transform whitens by the second moment of the queries and takes the KLT there (docs/policies/vestige.md).

#include <span>

#include "vestige/device.h"
#include "vestige/layout.h"
#include "vestige/tensor.h"

namespace vestige {

/// The transform of one sequence and layer, d = d_row:
///   t = forward (x - mean),  q . x = q . mean + (dual q) . t,  x = mean + dual^T t
/// and, for each group g of heads, a metric M_g = L_g L_g^T + ridge_g I on t, so that for any error e of t
///   |(dual q) . e| <= ||dual q||_{M_g^-1} ||e||_{M_g},   ||y||^2_{M_g^-1} = (||y||^2 - ||white_g y||^2) / ridge_g
struct RowTransform {
  ConstTensorView mean;     ///< [d] f32
  ConstTensorView forward;  ///< [d, d] f32
  ConstTensorView dual;     ///< [d, d] f32
  ConstTensorView metric;   ///< [n_groups, rank, d] f32: L_g^T
  ConstTensorView white;    ///< [n_groups, rank, d] f32
  ConstTensorView ridge;    ///< [n_groups] f32, > 0
};

/// Fits a transform. Coordinates come in falling order of variance.
///   M = second moment of the queries, each group's part included, plus ridge tr(M)/d I (and, with value_gram G,
///   M / tr(M C) + G / tr(G C)),  M = L L^T,  L^T C L = U diag(variance) U^T,  forward = U^T L^T,  C = Cov(x)
/// A group's L_g is the pivoted Cholesky factor, at most `rank` columns, of its dual queries' second moment.
/// Double precision inside; deterministic for any number of threads.
struct FitTransformParams {
  ConstTensorView queries;                                   ///< [n, h, d] f32, n >= 1
  ConstTensorView rows;                                      ///< [m, d] f32: a sample of rows, m >= 1
  ConstTensorView value_gram;                                ///< [d_content, d_content] f32, or empty: scores only
  float ridge = 1e-3f;                                       ///< in (0, 1]
  float group_ridge = 1e-3f;                                 ///< ridge_g as a share of tr(M_g) / d, in (0, 1]
  TensorView mean, forward, dual, metric, white, ridge_out;  ///< as in RowTransform, out
  TensorView variance;                                       ///< [d] f32, out
};
Status fit_transform_check(const FitTransformParams& p);

/// One stage of a code. Coordinate j has bits[j] bits, code = clamp(floor(v / step_j) + 2^(bits - 1), 0, 2^bits - 1)
/// and stands for step_j (code - (2^bits - 1) / 2); stage 0 codes v = t, stage 1 what stage 0 left of it. A code is cut
/// into pieces of 4, 2 and 1 bits, one *entry* each, which lie in 32-bit *units*: first all units of 4-bit entries,
/// then of 2, then of 1. Entry i of a unit of w-bit entries has bits [w (i / 4), w (i / 4) + w) of byte i % 4. Stage 0
/// lies in tiles of 16 rows, [unit][row], and its norms after it, [group][row]; stage 1 in rows, [unit], [group].
struct CodeStage {
  static constexpr int32_t kTileRows = 16;
  static constexpr int32_t kMaxBits = 8;
  int32_t n_units[3] = {0, 0, 0};  ///< of 4-, 2- and 1-bit entries
  /// [n_entries], n_entries = 8, 16, 32 a unit; padding entries have coord = -1 and weight = 0, and are coded 0
  ConstTensorView coord;   ///< i32: coordinate
  ConstTensorView shift;   ///< i32: place of the piece in its coordinate's code
  ConstTensorView weight;  ///< f32: step 2^shift, what one unit of the piece is worth
  ConstTensorView bits;    ///< [d] i32, in [0, kMaxBits]
  ConstTensorView step;    ///< [d] f32, > 0 where bits > 0
  float norm_base = 1.0f;  ///< norms are norm_base 2^(byte / 16), rounded up; byte 255 = no bound

  int32_t n_entries() const { return 8 * n_units[0] + 16 * n_units[1] + 32 * n_units[2]; }
  int64_t units() const { return int64_t{n_units[0]} + n_units[1] + n_units[2]; }
  /// Rows of whole tiles that hold n rows.
  static int64_t padded_rows(int64_t n) { return (n + kTileRows - 1) / kTileRows * kTileRows; }
  /// Norms take whole words.
  int64_t row_bytes(int64_t n_groups) const { return 4 * units() + (n_groups + 3) / 4 * 4; }
};

/// Codes of rows and the norms of what they leave: for stage s, ||e_s||_{M_g} for each group, e_0 = t - coded t.
/// Rounded toward safety: a norm is never below the true one of the stored row.
struct EncodeRowsParams {
  ConstTensorView content;  ///< [n, d_content] bf16 or f32; row stride free; n >= 1
  ConstTensorView branch;   ///< [n, d_branch] likewise; empty if d_branch = 0
  RowTransform transform;
  std::span<const CodeStage> stages;  ///< 1 or 2
  TensorView codes[2];                ///< [n up to a multiple of kTileRows, row_bytes] u8 of each stage, out
  /// May be empty: [n] u8, out: || content error of stage 0 ||_2 on the grid value_base 2^(byte / 16), rounded up
  TensorView value_norm;
  float value_base = 1.0f;
  TensorView max_norm;  ///< [2] f32, out: the largest ||x||_2 and the largest ||content||_2 of these rows, or more
};
Status encode_rows_check(const EncodeRowsParams& p);

/// The codes of one sequence, in the pages of its RowPages (closed rows only).
struct CodePages {
  const void* const* codes[2] = {nullptr, nullptr};  ///< [n_pages] of each stage, as encode_rows wrote them
  const void* const* value_norm = nullptr;           ///< [n_pages]; may be null
  int64_t page_rows = 0;                             ///< a page holds whole tiles, the last one perhaps in part
  int64_t n_rows = 0;
};

/// One sequence's scan. For stage s, head h of group g, row u:
///   bound_s = coded score + slack_h + z[s] scale ||dual q||_{M_g^-1} norm_s[u, g]
/// With z[s] >= 1 no score exceeds its bound (slack covers the rounding of queries and sums). A row that is not kept
/// fires if, for some head, bound_0 and (with two stages) bound_1 both exceed that head's threshold; stage 1 is
/// read only for rows that pass stage 0. A bound that is not a number fires.
struct CodeSet {
  RowTransform transform;
  std::span<const CodeStage> stages;
  CodePages pages;
  const uint8_t* kept = nullptr;  ///< [n_rows], 1 = attended already; null = none
  float z[2] = {1.0f, 1.0f};
  int32_t d_content = 0;
  float max_row_norm = 0;  ///< >= ||x||_2 of every row, for the slack
};
struct ScanCodesParams {
  ConstTensorView q;              ///< [b, h, d] f32; Unsupported on cpu past 256 heads
  std::span<const CodeSet> sets;  ///< [b]
  ConstTensorView threshold;      ///< [b, h] f32; +inf = this head never fires, -inf = always
  /// [b, h] f32: unit of `omitted`; the log-sum-exp of the attended rows is the natural one. Not finite: omitted =
  /// +inf.
  ConstTensorView reference;
  /// With top_j or share above 0 not every row that fires joins. For each head, rows come in falling order of bound
  /// (ties: the lower id; no number: first), at most top_j of them, and end with the first whose bound does not exceed
  ///   log(exp(threshold) + share sum exp(least score)),   least score = max over stages of
  ///                                        coded score - slack_h - z[s] scale ||dual q||_{M_g^-1} norm_s[u, g]
  /// summed over the rows before it but for the first n_free, and rounded down. A row joins if it does for any head.
  int32_t top_j = 0;   ///< 0 = any number
  float share = 0;     ///< >= 0; 0 = the threshold stays where it is
  int32_t n_free = 0;  ///< >= 0
  TensorView ids;      ///< [b, capacity] i32, out: the first `capacity` ids that joined, ascending
  TensorView n_ids;    ///< [b] i32, out: min(joined, capacity)
  TensorView n_fired;  ///< [b] i32, out: all that joined; > capacity means overflow
  TensorView n_stage;  ///< [b, 2] i64, out: codes read, by stage
  /// [b, h] f32, out: >= sum over rows neither kept nor joined of exp(true score - reference), by the sound bounds (z =
  /// 1)
  TensorView omitted;
  float scale = 1.0f;
};
Status scan_codes_check(const ScanCodesParams& p);

/// Attention over coded rows: the rows of a sequence that are neither kept nor among `skip`, with the score and the
/// content that their stage 0 stands for.
///   w_u = exp(coded score_u),  out = sum w_u coded content_u / sum w_u,  lse = log sum w_u
/// and what bounds the error of it (docs/policies/vestige.md), e_u = the sound bound on |score error|, v_u =
/// value_norm:
///   error[0] = sum w e^{e} v / sum w,  error[1] = sum w (e^{e} - 1) / sum w,  error[2] = sum w e^{-e} / sum w
/// No rows: out = 0, lse = -inf, error = 0.
struct AttendCodesParams {
  ConstTensorView q;              ///< [b, h, d] f32
  std::span<const CodeSet> sets;  ///< [b]; value_norm present
  float value_base = 1.0f;
  ConstTensorView skip;    ///< [b, capacity] i32: ids, ascending
  ConstTensorView n_skip;  ///< [b] i32
  TensorView out;          ///< [b, h, d_content] f32
  TensorView lse;          ///< [b, h] f32
  TensorView error;        ///< [b, h, 3] f32
  TensorView n_coded;      ///< [b] i64, out
  float scale = 1.0f;
};
Status attend_codes_check(const AttendCodesParams& p);

}  // namespace vestige
