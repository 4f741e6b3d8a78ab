#pragma once

// The queries of the latest decode steps, for refitting z on line.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "vestige/tensor.h"

namespace vestige {

class QueryWindow {
 public:
  /// Steps held: what one refit looks at, so that it costs some ten times a step and not a hundred.
  static constexpr int64_t kSteps = 32;

  /// @param q [1, h, d] f32
  void add(const ConstTensorView& q) {
    const int64_t width = q.n_elements();
    if (shape_.heads != q.dim(1) || shape_.width != q.dim(2)) {
      values_.assign(static_cast<size_t>(kSteps * width), 0.0f);
      shape_ = {q.dim(1), q.dim(2)};
      n_ = 0;
    }
    std::copy_n(q.as<float>(), width, values_.data() + n_ % kSteps * width);
    ++n_;
  }
  /// As it stood after n_steps calls of add().
  /// @param queries [min(n_steps, kSteps), h, d] f32: what queries() was then
  void restore(int64_t n_steps, const ConstTensorView& queries) {
    shape_ = {queries.dim(1), queries.dim(2)};
    values_.assign(static_cast<size_t>(kSteps * shape_.heads * shape_.width), 0.0f);
    std::copy_n(queries.as<float>(), queries.n_elements(), values_.data());
    n_ = n_steps;
  }
  void clear() { n_ = 0; }
  int64_t n_steps() const { return n_; }  ///< calls of add() since clear(), or since the width of queries changed
  int64_t size() const { return std::min(n_, kSteps); }
  /// [size(), h, d], in no particular order.
  ConstTensorView queries() const {
    return ConstTensorView(values_.data(), DType::kF32, {size(), shape_.heads, shape_.width});
  }

 private:
  struct Shape {
    int64_t heads = 0, width = 0;
  };
  std::vector<float> values_;
  Shape shape_;
  int64_t n_ = 0;
};

}  // namespace vestige
