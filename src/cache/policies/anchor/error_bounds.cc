// Upper bounds on the error of every coded token, in one byte a side.

#include <cmath>

#include "backend/ops/norm_grid.h"
#include "base/load_number.h"
#include "cache/policies/anchor/coded_layer.h"

namespace vestige::anchor {

namespace {

struct Norms {
  double left = 0, exact = 0, coded = 0, sketch = 0;
};

Norms norms_of(const ConstTensorView& x, int64_t t, const float* coded, const float* sketch, int64_t d) {
  double left = 0, exact = 0, kept = 0, drawn = 0;
  for (int64_t j = 0; j < d; ++j) {
    const auto a = static_cast<double>(load_number(x.data, x.dtype, t * x.stride[0] + j));
    const auto b = static_cast<double>(coded[j]), c = sketch == nullptr ? 0.0 : static_cast<double>(sketch[j]);
    left += (a - b - c) * (a - b - c);
    exact += a * a;
    kept += b * b;
    drawn += c * c;
  }
  return {std::sqrt(left), std::sqrt(exact), std::sqrt(kept), std::sqrt(drawn)};
}

}  // namespace

Status write_bounds(CodedLayer* layer, const LayerTokens& tokens, bool is_key, Stream& stream) {
  const LayerShape& s = layer->plan.shape;
  const int64_t n = s.n_coded(), d = s.d, n_bytes = is_key ? layer->plan.layout.sketch_bytes : 0;
  CodedSide& side = is_key ? layer->key : layer->value;
  if (side.bound.empty()) return {};
  std::vector<float> coded(static_cast<size_t>(n * d)), left(coded.size()), sketch(n_bytes > 0 ? coded.size() : 0);
  // Whoever attends rebuilds the token in float32, turns it and multiplies it with a query, in an order of its own:
  // of each product's terms no more than d + 32 roundings.
  const double rounding = static_cast<double>(d + 32) * 0x1p-24;
  for (int64_t h = 0; h < s.n_heads; ++h) {
    const HeadTokens& head = tokens.heads[static_cast<size_t>(h)];
    const ConstTensorView& x = is_key ? head.key : head.value;
    VESTIGE_TRY(decode_side(*layer, side, h, {coded.data(), DType::kF32, {n, d}}, stream));
    if (n_bytes > 0) {
      for (int64_t i = 0; i < n * d; ++i) {
        left[static_cast<size_t>(i)] =
            load_number(x.data, x.dtype, i / d * x.stride[0] + i % d) - coded[static_cast<size_t>(i)];
      }
      VESTIGE_TRY(layer->sketch.write(h, left, n, d, n_bytes));
      layer->sketch.read(h, 0, n, n, d, n_bytes, sketch.data());
    }
    for (int64_t t = 0; t < n; ++t) {
      const Norms norms = norms_of(x, t, coded.data() + t * d, n_bytes > 0 ? sketch.data() + t * d : nullptr, d);
      const double gap = norms.left * (1 + 1e-9) + rounding * (norms.exact + norms.coded + norms.sketch);
      side.bound[static_cast<size_t>(h * n + t)] = norm_byte(gap, CodedLayer::kBoundBase);
    }
  }
  return {};
}

}  // namespace vestige::anchor
