#include <cmath>
#include <limits>
#include <vector>

#include "backend/ref/ref_ops.h"

namespace vestige::ref {

Status merge_parts(const MergePartsParams& p, Stream&) {
  const int64_t n_parts = p.part.dim(0), n_rows = p.part.dim(1) * p.part.dim(2), d = p.part.dim(3);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  std::vector<double> weight(static_cast<size_t>(n_parts));
  for (int64_t i = 0; i < n_rows; ++i) {
    double max = -kInf, sum = 0;
    for (int64_t k = 0; k < n_parts; ++k) {
      max = std::max(max, static_cast<double>(p.lse.as<float>()[k * p.lse.stride[0] + i]));
    }
    for (int64_t k = 0; k < n_parts; ++k) {
      const double lse = static_cast<double>(p.lse.as<float>()[k * p.lse.stride[0] + i]);
      sum += weight[static_cast<size_t>(k)] = lse == -kInf ? 0.0 : std::exp(lse - max);
    }
    for (int64_t j = 0; j < d; ++j) {
      double acc = 0;
      for (int64_t k = 0; k < n_parts; ++k) {
        if (weight[static_cast<size_t>(k)] == 0.0) continue;
        acc +=
            weight[static_cast<size_t>(k)] * static_cast<double>(p.part.as<float>()[k * p.part.stride[0] + i * d + j]);
      }
      p.out.as<float>()[i * d + j] = max == -kInf && sum == 0.0 ? 0.0f : static_cast<float>(acc / sum);
    }
    if (!p.lse_out.empty()) p.lse_out.as<float>()[i] = static_cast<float>(max + std::log(sum));
  }
  return {};
}

}  // namespace vestige::ref
