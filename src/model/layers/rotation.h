#pragma once

// Rotary positions of latent attention: how the branch of a query and of a row is turned by its position before the
// row is cached.

#include <vector>

namespace vestige {

struct Rotation {
  std::vector<float> frequencies;  ///< [d_branch / 2] radians a position; empty: the branch is left as it is
  bool interleaved = true;         ///< pairs are neighbours; else one half apart (RotateParams)
  float scale = 1.0f;              ///< stretches the turned branch
  float score_scale = 1.0f;        ///< multiplies 1 / sqrt(d_q), the scale of the scores
};

}  // namespace vestige
