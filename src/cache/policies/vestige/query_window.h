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
    if (values_.empty()) values_.resize(static_cast<size_t>(kSteps * width));
    std::copy_n(q.as<float>(), width, values_.data() + n_ % kSteps * width);
    shape_ = {q.dim(1), q.dim(2)};
    ++n_;
  }
  void clear() { n_ = 0; }
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
