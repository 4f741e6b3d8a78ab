#include <vector>

#include "backend/ref/load.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

Status short_conv(const ShortConvParams& p, Stream&) {
  const int64_t t = p.x.dim(0), n = p.x.dim(1), width = p.weight.dim(1);
  std::vector<float> line(static_cast<size_t>(width - 1 + t));  // one channel over time, history first
  for (int64_t c = 0; c < n; ++c) {
    float* state = p.state.as<float>() + c;
    for (int64_t i = 0; i < width - 1; ++i) line[static_cast<size_t>(i)] = state[i * p.state.stride[0]];
    for (int64_t i = 0; i < t; ++i) {
      line[static_cast<size_t>(width - 1 + i)] = p.x.as<float>()[i * p.x.stride[0] + c];
    }
    for (int64_t i = 0; i < t; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < width; ++j) {
        sum += static_cast<double>(load(p.weight.data, p.weight.dtype, c * width + j)) *
               static_cast<double>(line[static_cast<size_t>(i + j)]);
      }
      p.out.as<float>()[i * p.out.stride[0] + c] = static_cast<float>(silu(sum));
    }
    for (int64_t i = 0; i < width - 1; ++i) state[i * p.state.stride[0]] = line[static_cast<size_t>(t + i)];
  }
  return {};
}

}  // namespace vestige::ref
