#pragma once

// Checks shared by the ops over rows: each message names the op, the field, the value seen and what is wanted.

#include <cinttypes>
#include <initializer_list>
#include <string>

#include "vestige/layout.h"
#include "vestige/status.h"
#include "vestige/tensor.h"

namespace vestige::check {

struct Field {
  const char* op;
  const char* name;
};

/// The view has the given dtype(s) and shape (-1 = any size), its last dimension is dense, and it has data.
inline Status tensor(Field field, const ConstTensorView& view, std::initializer_list<DType> dtypes,
                     std::initializer_list<int64_t> shape) {
  bool ok = view.rank == static_cast<int>(shape.size());
  int i = 0;
  for (int64_t n : shape) {
    ok = ok && view.dim(i) >= 0 && (n < 0 || view.dim(i) == n);
    ++i;
  }
  bool known = false;
  for (DType d : dtypes) known = known || view.dtype == d;
  if (ok && known) {
    const bool dense =
        view.rank == 0 || view.dim(view.rank - 1) <= 1 || view.stride[static_cast<size_t>(view.rank - 1)] == 1;
    if (!dense) return invalid_argument("%s: %s has a last stride other than 1, want 1", field.op, field.name);
    if (view.data == nullptr && view.n_elements() > 0) {
      return invalid_argument("%s: %s has no data, want %s", field.op, field.name, describe(view).c_str());
    }
    return {};
  }
  std::string want = "[";
  for (int64_t n : shape) want += (want.size() > 1 ? ", " : "") + (n < 0 ? std::string("any") : std::to_string(n));
  want += "]";
  for (DType d : dtypes) want += std::string(d == *dtypes.begin() ? " " : " or ") + dtype_name(d);
  return invalid_argument("%s: %s is %s, want %s", field.op, field.name, describe(view).c_str(), want.c_str());
}

inline Status dense(Field field, const ConstTensorView& view) {
  if (view.contiguous()) return {};
  return invalid_argument("%s: %s is strided, want a dense view", field.op, field.name);
}

/// Every dimension but the first is dense.
inline Status dense_inner(Field field, const ConstTensorView& view) {
  int64_t step = 1;
  for (int i = view.rank - 1; i >= 1; --i) {
    if (view.dim(i) != 1 && view.stride[static_cast<size_t>(i)] != step) {
      return invalid_argument("%s: %s is strided inside dimension 0, want dense", field.op, field.name);
    }
    step *= view.dim(i);
  }
  return {};
}

inline Status finite_scale(const char* op, float scale) {
  if (scale > 0 && scale < 3e38f) return {};
  return invalid_argument("%s: scale = %g, want a positive number", op, static_cast<double>(scale));
}

/// Queries [b, h, d] of one step: dense, at least one head, and one set a sequence.
inline Status step_queries(const char* op, const ConstTensorView& q, float scale, size_t n_sets) {
  VESTIGE_TRY(finite_scale(op, scale));
  VESTIGE_TRY(tensor({op, "q"}, q, {DType::kF32}, {-1, -1, -1}));
  VESTIGE_TRY(dense({op, "q"}, q));
  if (static_cast<int64_t>(n_sets) != q.dim(0)) {
    return invalid_argument("%s: sets has %zu entries, want %" PRId64 ", one a sequence", op, n_sets, q.dim(0));
  }
  return q.dim(1) >= 1 ? Status() : invalid_argument("%s: q is %s, want at least one head", op, describe(q).c_str());
}

inline Status pages(const char* op, const RowPages& p) {
  const RowLayout& l = p.layout;
  if (l.d_content <= 0 || l.d_branch < 0) {
    return invalid_argument("%s: layout is %d + %d wide, want d_content > 0 and d_branch >= 0", op, l.d_content,
                            l.d_branch);
  }
  if (l.d_scored() < 1) return invalid_argument("%s: rows without a scored number, want d_branch > 0", op);
  if (l.dtype != DType::kBF16 && l.dtype != DType::kF32) {
    return invalid_argument("%s: rows are %s, want BF16 or F32", op, dtype_name(l.dtype));
  }
  if (p.n_rows < 0 || p.n_rows > INT32_MAX) {
    return invalid_argument("%s: n_rows = %" PRId64 ", want 0 to %d", op, p.n_rows, INT32_MAX);
  }
  if (p.n_rows == 0) return {};
  if (p.page_rows <= 0) return invalid_argument("%s: page_rows = %" PRId64 ", want at least 1", op, p.page_rows);
  if (p.content == nullptr || (l.d_branch > 0 && p.branch == nullptr)) {
    return invalid_argument("%s: %s is null, want a table of pages", op, p.content == nullptr ? "content" : "branch");
  }
  if (p.content_stride < l.d_content || p.branch_stride < l.d_branch) {
    return invalid_argument("%s: row strides are %" PRId64 " and %" PRId64 ", want at least %d and %d", op,
                            p.content_stride, p.branch_stride, l.d_content, l.d_branch);
  }
  return {};
}

}  // namespace vestige::check
