#pragma once

// The small words the layers are written in: views of views, and the two ops each of them uses most.

#include <cstdint>
#include <initializer_list>
#include <span>

#include "model/scratch.h"
#include "model/weights.h"
#include "vestige/ops.h"

namespace vestige {

/// What a layer works with besides its weights.
struct LayerRun {
  Scratch& scratch;
  Stream& stream;
};

/// The same dense memory under another shape.
template <class View>
View reshaped(const View& view, std::initializer_list<int64_t> shape) {
  return View(view.data, view.dtype, shape, view.device);
}

/// Columns [begin, begin + count) of the last dimension.
template <class View>
View columns(View view, int64_t begin, int64_t count) {
  const size_t last = static_cast<size_t>(view.rank - 1);
  View shifted = view;
  shifted.rank = 1;
  shifted.stride[0] = view.stride[last];
  view.data = shifted.slice(begin, count).data;
  view.shape[last] = count;
  return view;
}

/// out = x w^T, or out += x w^T.
inline Status linear(const ConstTensorView& x, const Weight& w, const TensorView& out, Stream& stream,
                     bool accumulate = false) {
  return ops::matmul({.x = x, .w = w.data, .scale = w.scale, .out = out, .accumulate = accumulate}, stream);
}

/// One entry of a matmul_list: out = x w^T.
inline MatmulParams product(const ConstTensorView& x, const Weight& w, const TensorView& out) {
  return {.x = x, .w = w.data, .scale = w.scale, .out = out};
}

/// Products that do not wait for each other.
inline Status linear_list(std::initializer_list<MatmulParams> products, Stream& stream) {
  return ops::matmul_list({std::span(products.begin(), products.size())}, stream);
}

inline Status rms_norm(const ConstTensorView& x, const ConstTensorView& weight, float eps, const TensorView& out,
                       Stream& stream) {
  return ops::rms_norm({.x = x, .weight = weight, .gate = {}, .out = out, .eps = eps}, stream);
}

}  // namespace vestige
