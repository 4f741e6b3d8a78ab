#pragma once

// Ops of the plane codec: rows of one key-value head as transform coefficients of unequal precision, stored as bit
// planes. Source: docs/policies/klt.md (a Karhunen-Loeve transform with reverse water-filling; our own form).

#include "vestige/device.h"
#include "vestige/tensor.h"

namespace vestige {

/// Keys, or values, of a head: how a row's coefficients t_0 .. t_{r-1} are coded and what they stand for,
///   x = mean + sum_j t_j basis_scale_j basis_j.
/// Rows are in classes. In class c coefficient j has b bits, the number of planes p with j < n_planes[c, p], and
///   t_j = range[c, j] (u + 2^-(b+1) - 1/2),   u = sum_p bit_p 2^-(p+1);   t_j = 0 where b = 0.
/// range = 2^((code - 160) / 8); code 0 stands for the range 0.
struct PlaneSide {
  ConstTensorView basis;        ///< [r, d] u8 read as int8 (two's complement), 0 <= r <= d <= 256, d a multiple of 8
  ConstTensorView basis_scale;  ///< [r] f32
  ConstTensorView mean;         ///< [d] f32
  ConstTensorView n_planes;     ///< [n_classes, 8] i32, each row non-increasing, entries 0 to r
  ConstTensorView range;        ///< [n_classes, r] u8
};

/// Codes of n rows. A row of class c takes row_bytes(c) = ceil(sum of n_planes[c] of both sides / 8) bytes: the planes
/// of its key, the most significant first, then those of its value, each plane's bits in order of coefficients, lowest
/// bit of a byte first, nothing between them, the last byte filled with zeros. Rows of a class follow each other in
/// order of position; the classes' arrays follow each other in `codes`.
struct PlaneRows {
  PlaneSide key, value;       ///< of the same d and n_classes, 1 <= n_classes <= 4
  ConstTensorView row_class;  ///< [ceil(n / 4)] u8: two bits a row, row 0 in the lowest; < n_classes
  /// [ceil(n / kPlaneRun), n_classes] i32: rows of each class before the run's first row.
  ConstTensorView run_start;
  ConstTensorView codes;  ///< [bytes] u8, as many as the rows take
  int64_t n_rows = 0;
};
inline constexpr int64_t kPlaneRun = 1024;

/// Quantises coefficients: code = the value nearest to t_j among those that b bits stand for (of two as near the
/// higher, in float64), clamped at the ends; one that is not a number, or whose range is 0, takes the lowest. Writes
/// `codes` whole. Same bytes on any CPU and for any number of threads.
struct EncodePlanesParams {
  ConstTensorView key;    ///< [n, >= r of the key] f32 coefficients; row stride free
  ConstTensorView value;  ///< [n, >= r of the value] f32
  PlaneRows rows;         ///< all but `codes`
  TensorView codes;       ///< [bytes] u8, out
};
Status encode_planes_check(const EncodePlanesParams& p);

/// Attention over the coded rows of one key-value head, for the m query heads that share it:
///   s_t = scale q . R_t key_t,  out = sum softmax(s)_t value_t,  lse = log sum exp s_t
/// R_t turns the first 2 n_frequencies coordinates as `rotate` does, by position first_position + t (cpu: by the exact
/// angle, not by its float32 product). No array of keys or values is built: values are summed as coefficients. cpu
/// holds a key in 16-bit integers, in steps of about 1/32000 of the most that its pair of coordinates can be: scores
/// of keys of up to 100 bits are right to about 1e-4 of theirs, and the error grows with coefficients and bits. No
/// rows: out = 0, lse = -inf. Same bits for any number of threads. Classes, starts and sizes are trusted: whoever reads
/// them from a file checks them.
struct AttendPlanesParams {
  ConstTensorView q;  ///< [m, d] f32, turned to its own position; m >= 1; row stride free
  PlaneRows rows;
  ConstTensorView frequencies = {};  ///< [at most d / 2] f32, radians a position; empty: keys are not turned
  bool interleaved = true;           ///< as in `rotate`
  int64_t first_position = 0;
  float scale = 1.0f;
  TensorView out;  ///< [m, d] f32; row stride free
  TensorView lse;  ///< [m] f32
};
Status attend_planes_check(const AttendPlanesParams& p);

}  // namespace vestige
