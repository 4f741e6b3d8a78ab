#pragma once

// Shared pieces of the `<op>_check` functions: shape, dtype and stride of one view, with a message that names
// the op, the field, what was seen and what was wanted.

#include <initializer_list>
#include <string>

#include "vestige/status.h"
#include "vestige/tensor.h"

namespace vestige {

enum class Strides : uint8_t {
  kDense,     ///< row-major without gaps
  kFree,      ///< last stride 1, the others >= 0 (an input may repeat a row)
  kDistinct,  ///< last stride 1, the others wide enough that no element is written twice
};

struct ViewWant {
  const char* op;
  const char* field;
  std::initializer_list<int64_t> shape;
  std::initializer_list<DType> dtypes;
  Strides strides = Strides::kDense;
};

/// InvalidArgument unless `view` has that shape, one of those dtypes, those strides, and memory if it has elements.
Status check_view(const ConstTensorView& view, const ViewWant& want);
/// InvalidArgument unless `view` has that many dimensions (so that its dims can be read).
Status check_rank(const ConstTensorView& view, int rank, const char* op, const char* field);
/// InvalidArgument if two views of f32 rows share an element. Column windows of one wider buffer do not.
Status check_apart(const ConstTensorView& a, const ConstTensorView& b, const char* op, const char* fields);
/// InvalidArgument unless `scale` is the [ceil(n / 128), ceil(k / 128)] table of an f8e4m3 `w`, or absent for others.
Status check_scale(const ConstTensorView& w, const ConstTensorView& scale, const char* op, const char* field = "scale");
/// InvalidArgument unless `w` is an [n, k] weight as checkpoints store it: f32, bf16, f16, f8e4m3 with its `scale`, or
/// blocks of codes with rows and strides of whole blocks; contiguous rows.
Status check_weight(const ConstTensorView& w, const ConstTensorView& scale, const char* op, const char* field);
/// InvalidArgument unless every i32 of `ids` (if on the CPU) lies in [0, limit).
Status check_ids(const ConstTensorView& ids, int64_t limit, const char* op, const char* field);

}  // namespace vestige
