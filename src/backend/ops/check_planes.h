#pragma once

// Checks shared by the ops of the plane codec.

#include "backend/ops/check_rows.h"
#include "backend/ops/plane_code.h"

namespace vestige::check {

inline Status plane_side(const char* op, const PlaneSide& s, int64_t d, int64_t n_classes) {
  VESTIGE_TRY(tensor({op, "basis"}, s.basis, {DType::kU8}, {-1, d}));
  const int64_t r = s.basis.dim(0);
  if (r > d) return invalid_argument("%s: basis has %" PRId64 " rows, want at most %" PRId64, op, r, d);
  VESTIGE_TRY(tensor({op, "basis_scale"}, s.basis_scale, {DType::kF32}, {r}));
  VESTIGE_TRY(tensor({op, "mean"}, s.mean, {DType::kF32}, {d}));
  VESTIGE_TRY(tensor({op, "n_planes"}, s.n_planes, {DType::kI32}, {n_classes, kMaxPlanes}));
  VESTIGE_TRY(tensor({op, "range"}, s.range, {DType::kU8}, {n_classes, r}));
  VESTIGE_TRY(dense({op, "basis"}, s.basis));
  VESTIGE_TRY(dense({op, "n_planes"}, s.n_planes));
  VESTIGE_TRY(dense({op, "range"}, s.range));
  if (s.n_planes.device != DeviceKind::kCpu) return {};
  for (int64_t c = 0; c < n_classes; ++c) {
    int64_t most = r;
    for (int64_t p = 0; p < kMaxPlanes; ++p) {
      const int64_t width = plane_width(s, c, p);
      if (width < 0 || width > most) {
        return invalid_argument("%s: n_planes[%" PRId64 ", %" PRId64 "] = %" PRId64 ", want 0 to %" PRId64, op, c, p,
                                width, most);
      }
      most = width;
    }
  }
  return {};
}

/// All but `codes`, which one op writes.
inline Status plane_rows(const char* op, const PlaneRows& rows) {
  if (rows.n_rows < 0 || rows.n_rows > INT32_MAX) {
    return invalid_argument("%s: n_rows = %" PRId64 ", want 0 to %d", op, rows.n_rows, INT32_MAX);
  }
  VESTIGE_TRY(tensor({op, "mean"}, rows.key.mean, {DType::kF32}, {-1}));
  const int64_t d = rows.key.mean.dim(0);
  if (d < 8 || d > kMaxPlaneWidth || d % 8 != 0) {
    return invalid_argument("%s: rows are %" PRId64 " wide, want a multiple of 8 from 8 to %" PRId64, op, d,
                            kMaxPlaneWidth);
  }
  VESTIGE_TRY(tensor({op, "n_planes"}, rows.key.n_planes, {DType::kI32}, {-1, kMaxPlanes}));
  const int64_t n_classes = rows.key.n_planes.dim(0);
  if (n_classes < 1 || n_classes > kMaxPlaneClasses) {
    return invalid_argument("%s: n_planes has %" PRId64 " classes, want 1 to %" PRId64, op, n_classes,
                            kMaxPlaneClasses);
  }
  VESTIGE_TRY(plane_side(op, rows.key, d, n_classes));
  VESTIGE_TRY(plane_side(op, rows.value, d, n_classes));
  VESTIGE_TRY(tensor({op, "row_class"}, rows.row_class, {DType::kU8}, {(rows.n_rows + 3) / 4}));
  const int64_t n_runs = (rows.n_rows + kPlaneRun - 1) / kPlaneRun;
  VESTIGE_TRY(tensor({op, "run_start"}, rows.run_start, {DType::kI32}, {n_runs, n_classes}));
  return dense({op, "run_start"}, rows.run_start);
}

}  // namespace vestige::check
