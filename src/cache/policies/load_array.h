#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "vestige/policy.h"

namespace vestige {

/// A matrix [n, width] of a file into `out`; empty and not looked for if it has no elements. Nothing is taken before
/// the source has it.
template <class T>
Status load_array(const TensorSource& source, const std::string& name, DType dtype, int64_t n, int64_t width,
                  std::vector<T>* out) {
  out->clear();
  if (n * width == 0) return {};
  VESTIGE_ASSIGN(const ConstTensorView view, source.get(name, dtype, {n, width}));
  out->resize(static_cast<size_t>(n * width));
  std::memcpy(out->data(), view.data, out->size() * sizeof(T));
  return {};
}

}  // namespace vestige
