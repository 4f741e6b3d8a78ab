#include <cmath>
#include <vector>

#include "backend/ref/ref_ops.h"

namespace vestige::ref {

namespace {

using Row = std::vector<double>;

Row unit(const float* x, int64_t d, double scale) {
  double sum = 0;
  for (int64_t c = 0; c < d; ++c) sum += static_cast<double>(x[c]) * static_cast<double>(x[c]);
  Row y(static_cast<size_t>(d));
  for (int64_t c = 0; c < d; ++c) y[static_cast<size_t>(c)] = static_cast<double>(x[c]) / std::sqrt(sum + 1e-6) * scale;
  return y;
}

// One token of the recurrence on one head's state s [d_k, d_v].
void step(const KdaParams& p, int64_t i, int64_t head, Row& s) {
  const int64_t d_k = p.q.dim(2), d_v = p.v.dim(2);
  const auto at = [&](const auto& view) {
    return view.template as<float>() + i * view.stride[0] + head * view.stride[1];
  };
  const Row q = unit(at(p.q), d_k, static_cast<double>(p.scale)), k = unit(at(p.k), d_k, 1.0);
  const float* v = at(p.v);
  const float* decay = at(p.decay);
  const double beta = static_cast<double>(p.beta.as<float>()[i * p.beta.stride[0] + head]);
  float* out = at(p.out);
  for (int64_t a = 0; a < d_k; ++a) {
    for (int64_t b = 0; b < d_v; ++b) s[static_cast<size_t>(a * d_v + b)] *= std::exp(static_cast<double>(decay[a]));
  }
  for (int64_t b = 0; b < d_v; ++b) {
    double old = 0, read = 0;
    for (int64_t a = 0; a < d_k; ++a) old += s[static_cast<size_t>(a * d_v + b)] * k[static_cast<size_t>(a)];
    const double u = beta * (static_cast<double>(v[b]) - old);
    for (int64_t a = 0; a < d_k; ++a) {
      double& cell = s[static_cast<size_t>(a * d_v + b)];
      cell += k[static_cast<size_t>(a)] * u;
      read += cell * q[static_cast<size_t>(a)];
    }
    out[b] = static_cast<float>(read);
  }
}

}  // namespace

Status kda(const KdaParams& p, Stream&) {
  const int64_t t = p.q.dim(0), h = p.q.dim(1), size = p.q.dim(2) * p.v.dim(2);
  for (int64_t head = 0; head < h; ++head) {
    float* state = p.state.as<float>() + head * size;
    Row s(state, state + size);
    for (int64_t i = 0; i < t; ++i) step(p, i, head, s);
    for (int64_t c = 0; c < size; ++c) state[c] = static_cast<float>(s[static_cast<size_t>(c)]);
  }
  return {};
}

}  // namespace vestige::ref
