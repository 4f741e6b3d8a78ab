#include <vector>

#include "backend/ref/load.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

namespace {

template <class X>
double dot(const ConstTensorView& w, const ConstTensorView& scale, int64_t row, const X* x) {
  double sum = 0;
  for (int64_t c = 0; c < w.dim(1); ++c) {
    sum += static_cast<double>(load_weight(w, scale, row, c)) * static_cast<double>(x[c]);
  }
  return sum;
}

}  // namespace

Status expert_mlp(const ExpertMlpParams& p, Stream&) {
  const int64_t t = p.x.dim(0), d = p.x.dim(1), top_k = p.ids.dim(1);
  std::vector<double> hidden, total(static_cast<size_t>(d));
  for (int64_t i = 0; i < t; ++i) {
    const float* x = p.x.as<float>() + i * p.x.stride[0];
    float* out = p.out.as<float>() + i * p.out.stride[0];
    for (int64_t c = 0; c < d; ++c) total[static_cast<size_t>(c)] = static_cast<double>(out[c]);
    for (int64_t j = 0; j < top_k; ++j) {
      const ExpertWeights& w = p.experts[static_cast<size_t>(p.ids.as<int32_t>()[i * top_k + j])];
      hidden.assign(static_cast<size_t>(w.gate.dim(0)), 0.0);
      for (int64_t f = 0; f < w.gate.dim(0); ++f) {
        hidden[static_cast<size_t>(f)] = silu(dot(w.gate, w.gate_scale, f, x)) * dot(w.up, w.up_scale, f, x);
      }
      const double weight = static_cast<double>(p.weights.as<float>()[i * top_k + j]);
      for (int64_t c = 0; c < d; ++c) {
        total[static_cast<size_t>(c)] += weight * dot(w.down, w.down_scale, c, hidden.data());
      }
    }
    for (int64_t c = 0; c < d; ++c) out[c] = static_cast<float>(total[static_cast<size_t>(c)]);
  }
  return {};
}

}  // namespace vestige::ref
