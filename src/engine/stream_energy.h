#pragma once

// Mean squared length of the residual stream where each layer adds to it, over the document's tokens: what an error of
// a layer's output is small or large against.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "vestige/tensor.h"

namespace vestige {

class StreamEnergy {
 public:
  /// @param layer that x [t, d] f32 goes into. Tokens one by one, so that it does not matter how a text is cut.
  void add(int32_t layer, const ConstTensorView& x) {
    const auto at = static_cast<size_t>(layer);
    if (at >= sum_.size()) {
      sum_.resize(at + 1, 0.0);
      n_.resize(at + 1, 0);
    }
    for (int64_t t = 0; t < x.dim(0); ++t) {
      const float* row = x.as<float>() + t * x.stride[0];
      for (int64_t j = 0; j < x.dim(1); ++j) sum_[at] += double(row[j]) * double(row[j]);
    }
    n_[at] += x.dim(0);
  }
  /// The power of two next to 1 / energy; 1 where nothing is known. A power of two changes no other bit of what it
  /// scales.
  float unit(int32_t layer) const {
    const auto at = static_cast<size_t>(layer);
    if (at >= sum_.size() || !(sum_[at] > 0) || !std::isfinite(sum_[at])) return 1.0f;
    const double power = std::round(-std::log2(sum_[at] / static_cast<double>(n_[at])));
    return static_cast<float>(std::exp2(std::clamp(power, -60.0, 60.0)));
  }

 private:
  std::vector<double> sum_;
  std::vector<int64_t> n_;
};

}  // namespace vestige
