#pragma once

// Dense product with a weight as checkpoints store it.

#include <span>

#include "vestige/device.h"
#include "vestige/tensor.h"

namespace vestige {

/// out[i, j] = sum_k x[i, k] * w[j, k]   (+ out[i, j] if accumulate)
///
/// The bits of out row i depend on row i of x and on w alone: not on m, not on the other rows, not on
/// the number of threads; blocks of codes give the bits that the numbers they stand for give as f32. (So a text gives
/// the same numbers whatever the prefill chunk.) One exception, stated so that it can be relied on: m <= kGemvRows
/// takes the bandwidth-bound path, m > kGemvRows the compute-bound one, and the two agree only to rounding.
struct MatmulParams {
  static constexpr int64_t kGemvRows = 8;
  ConstTensorView x;           ///< [m, k] f32, m >= 0; row stride free
  ConstTensorView w;           ///< [n, k] f32, bf16, f16, f8e4m3 or blocks of codes; contiguous rows
  ConstTensorView scale = {};  ///< f8e4m3 only: [ceil(n / 128), ceil(k / 128)] f32, weight = code * scale
  TensorView out;              ///< [m, n] f32; row stride free; must not overlap x
  bool accumulate = false;
};

/// @return InvalidArgument if a shape or dtype disagrees.
Status matmul_check(const MatmulParams& p);

/// Products that do not read each other's results, done together: one wait for the threads where separate calls take
/// one each. Every out has the bits that matmul gives it.
struct MatmulListParams {
  std::span<const MatmulParams> products;  ///< may be empty; no out overlaps the x or the out of another
};
Status matmul_list_check(const MatmulListParams& p);

/// Per-head product: out[i, h, j] = sum_k x[i, h, k] * w[h, j, k], or w[h, k, j] if `transposed`.
/// Used to absorb queries (transposed: W_UK) and to expand attended content into values (W_UV).
/// Same promise on bits as matmul, without the exception.
struct HeadMatmulParams {
  ConstTensorView x;  ///< [t, h, k] f32; strides free, last 1
  ConstTensorView w;  ///< [h, n, k] (or [h, k, n] if transposed) f32, bf16, f16; stride[0] free, rows contiguous
  TensorView out;     ///< [t, h, n] f32; strides free, last 1
  bool transposed = false;
};
Status head_matmul_check(const HeadMatmulParams& p);

}  // namespace vestige
