#pragma once

// The ops. One line in VESTIGE_OPS adds one: it becomes a field of every backend's table, a function in
// vestige::ops, a row of backend_test and a row of the bench.

#include "vestige/ops/anchor.h"
#include "vestige/ops/attend.h"
#include "vestige/ops/codes.h"
#include "vestige/ops/experts.h"
#include "vestige/ops/kda.h"
#include "vestige/ops/matmul.h"
#include "vestige/ops/observe.h"
#include "vestige/ops/pages.h"
#include "vestige/ops/planes.h"
#include "vestige/ops/recall.h"
#include "vestige/ops/rows.h"

#define VESTIGE_OPS(X)                          \
  X(matmul, MatmulParams)                       \
  X(matmul_list, MatmulListParams)              \
  X(head_matmul, HeadMatmulParams)              \
  X(gather_rows, GatherRowsParams)              \
  X(rms_norm, RmsNormParams)                    \
  X(silu_mul, SiluMulParams)                    \
  X(rotate, RotateParams)                       \
  X(short_conv, ShortConvParams)                \
  X(kda_gate, KdaGateParams)                    \
  X(kda, KdaParams)                             \
  X(route_experts, RouteExpertsParams)          \
  X(expert_mlp, ExpertMlpParams)                \
  X(attend_prefill, AttendPrefillParams)        \
  X(attend_prefill_gqa, AttendPrefillGqaParams) \
  X(attend_rows, AttendRowsParams)              \
  X(merge_parts, MergePartsParams)              \
  X(score_rows, ScoreRowsParams)                \
  X(select_rows, SelectRowsParams)              \
  X(sketch_rows, SketchRowsParams)              \
  X(fit_basis, FitBasisParams)                  \
  X(scan_archive, ScanArchiveParams)            \
  X(best_rows, BestRowsParams)                  \
  X(fit_transform, FitTransformParams)          \
  X(encode_rows, EncodeRowsParams)              \
  X(scan_codes, ScanCodesParams)                \
  X(attend_codes, AttendCodesParams)            \
  X(attend_mass, AttendMassParams)              \
  X(score_moments, ScoreMomentsParams)          \
  X(digest_pages, DigestPagesParams)            \
  X(scan_pages, ScanPagesParams)                \
  X(encode_rotated, EncodeRotatedParams)        \
  X(decode_rotated, DecodeRotatedParams)        \
  X(nearest_anchor, NearestAnchorParams)        \
  X(attend_anchored, AttendAnchoredParams)      \
  X(encode_planes, EncodePlanesParams)          \
  X(attend_planes, AttendPlanesParams)

namespace vestige::ops {

/// Each op checks its params (InvalidArgument, nothing queued), then runs on the stream's backend.
/// Unsupported, naming op and backend, if that backend lacks the op: there is no silent fallback.
#define VESTIGE_DECLARE_OP(name, Params) Status name(const Params& params, Stream& stream);
VESTIGE_OPS(VESTIGE_DECLARE_OP)
#undef VESTIGE_DECLARE_OP

}  // namespace vestige::ops
