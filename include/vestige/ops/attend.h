#pragma once

// Attention over sets of latent rows, and the exact merge of its parts.
// Attention over any set of rows gives (out, lse); parts over disjoint sets merge into the part of the
// union (vestigekv.md, Lemma 1). lse is natural log. An empty set has out = 0, lse = max = -inf.

#include <span>

#include "vestige/device.h"
#include "vestige/layout.h"
#include "vestige/tensor.h"

namespace vestige {

/// Dense causal attention of a prefill chunk, un-absorbed: key = [W_UK c ; branch], value = W_UV c.
/// Query i has position `position` + i and sees rows 0 .. position + i; those rows are in `rows` already.
/// Never holds more than a tile of scores. The bits of one query's output depend on its position, its
/// query and the rows, not on t or on threads.
struct AttendPrefillParams {
  ConstTensorView q;     ///< [t, h, d_nope + d_branch] f32
  RowPages rows;         ///< at least position + t rows
  ConstTensorView w_uk;  ///< [h, d_nope, d_content] f32 or bf16; stride[0] free
  ConstTensorView w_uv;  ///< [h, d_v, d_content] f32 or bf16; stride[0] free
  TensorView out;        ///< [t, h, d_v] f32
  int64_t position = 0;
  float scale = 1.0f;
};
Status attend_prefill_check(const AttendPrefillParams& p);

/// The same for grouped-query attention, whose rows are [value ; key]. Query head i reads the rows of key-value head
/// i / (h / n_kv). Same promises.
struct AttendPrefillGqaParams {
  ConstTensorView q;               ///< [t, h, d_branch] f32
  std::span<const RowPages> rows;  ///< [n_kv], n_kv divides h: of one layout, content not scored, position + t rows
  TensorView out;                  ///< [t, h, d_content] f32
  int64_t position = 0;
  float scale = 1.0f;
};
Status attend_prefill_gqa_check(const AttendPrefillGqaParams& p);

/// The rows one sequence attends in one part.
struct RowSet {
  RowPages pages;
  /// Row ids to attend, [>= n], ascending, each in [0, pages.n_rows); null = rows 0 .. n - 1. Not checked: the ids may
  /// lie on a device.
  const int32_t* ids = nullptr;
  /// Device pointer to n, in [0, pages.n_rows] (not checked either); null = pages.n_rows.
  const int32_t* n_rows = nullptr;
};

/// Decode attention in absorbed form over one set of rows a sequence; all heads share one pass:
///   s = scale * q . [c ; branch] (q_branch . branch if the layout's content is not scored),  out = sum softmax(s) c,
///   lse = log sum exp(s),  max = max s
/// The set is walked in fixed runs of rows, merged in order: bits do not depend on threads.
struct AttendRowsParams {
  ConstTensorView q;             ///< [b, h, d_content + d_branch] f32
  std::span<const RowSet> rows;  ///< [b]
  TensorView out;                ///< [b, h, d_content] f32
  TensorView lse;                ///< [b, h] f32
  TensorView max;                ///< [b, h] f32, or empty
  float scale = 1.0f;
};
Status attend_rows_check(const AttendRowsParams& p);

/// out = sum_p exp(lse_p - lse) part_p with lse = log sum_p exp(lse_p), in the order of p.
/// All parts empty: out = 0, lse = -inf.
struct MergePartsParams {
  ConstTensorView part;  ///< [n_parts, b, h, d] f32; stride[0] free
  ConstTensorView lse;   ///< [n_parts, b, h] f32; stride[0] free
  TensorView out;        ///< [b, h, d] f32; may be part 0
  TensorView lse_out;    ///< [b, h] f32, or empty
};
Status merge_parts_check(const MergePartsParams& p);

}  // namespace vestige
