#pragma once

#include <cmath>
#include <vector>

#include "vestige/tensor.h"

namespace vestige::ref {

/// x turned as `rotate` turns it: by the float32 product of position and frequency. No frequencies: not at all.
inline void turn_to_position(const ConstTensorView& frequencies, bool interleaved, int64_t position,
                             std::vector<double>* x) {
  if (frequencies.data == nullptr) return;
  const int64_t n_pairs = frequencies.dim(0), step = interleaved ? 2 : 1, apart = interleaved ? 1 : n_pairs;
  for (int64_t j = 0; j < n_pairs; ++j) {
    const double angle = static_cast<double>(static_cast<float>(position) * frequencies.as<float>()[j]);
    double& a = (*x)[static_cast<size_t>(j * step)];
    double& b = (*x)[static_cast<size_t>(j * step + apart)];
    const double turned = a * std::cos(angle) - b * std::sin(angle);
    b = a * std::sin(angle) + b * std::cos(angle);
    a = turned;
  }
}

}  // namespace vestige::ref
