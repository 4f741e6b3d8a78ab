#include "cache/policies/anchor/coded_layer.h"

#include "backend/ops/anchored_side.h"
#include "backend/ops/gamma_code.h"

namespace vestige::anchor {

namespace {

template <class T>
int64_t bytes_of(const std::vector<T>& v) {
  return static_cast<int64_t>(v.size() * sizeof(T));
}

}  // namespace

AnchoredSide CodedSide::view(const BytePlan& plan, int64_t head) const {
  const LayerShape& s = plan.shape;
  const CodeLayout& l = plan.layout;
  const int64_t n = s.n_coded(), d = s.d, row_bytes = d * l.bits / 8;
  const int64_t first = offset[static_cast<size_t>(head)], count = offset[static_cast<size_t>(head + 1)] - first;
  return {.anchors = {anchors.data() + head * s.n_anchors * d, DType::kBF16, {s.n_anchors, d}},
          .index = {index.data() + head * n * l.index_bytes, DType::kU8, {n, l.index_bytes}},
          .gamma = {gamma.data() + head * n * l.gamma_bytes, l.gamma_bytes == 1 ? DType::kU8 : DType::kBF16, {n}},
          .mask = {mask.data() + head * s.n_words(), DType::kI64, {s.n_words()}},
          .prefix = {prefix.data() + head * s.n_words(), DType::kI32, {s.n_words()}},
          .codes = {codes.data() + first * row_bytes, DType::kU8, {count, row_bytes}},
          .scale = {scale.data() + first * l.scale_bytes, l.scale_bytes == 2 ? DType::kF16 : DType::kF32, {count}}};
}

int64_t CodedSide::n_bytes() const {
  return bytes_of(anchors) + bytes_of(index) + bytes_of(gamma) + bytes_of(bound) + bytes_of(mask) + bytes_of(prefix) +
         bytes_of(offset) + bytes_of(codes) + bytes_of(scale) + bytes_of(slot);
}

int64_t CodedLayer::n_bytes() const {
  return bytes_of(anchor_positions) + bytes_of(position_ids) + key.n_bytes() + value.n_bytes() + sketch.size_bytes();
}

int64_t CodedLayer::anchor_position(int64_t h, int64_t i) const {
  const int64_t width = plan.layout.anchor_position_bytes;
  int64_t position = 0;
  for (int64_t b = 0; b < width; ++b) {
    const uint8_t byte = anchor_positions[static_cast<size_t>((h * plan.shape.n_selected() + i) * width + b)];
    position |= static_cast<int64_t>(byte) << (8 * b);
  }
  return position;
}

Status decode_side(const CodedLayer& layer, const CodedSide& side, int64_t head, const TensorView& out,
                   Stream& stream) {
  const AnchoredSide view = side.view(layer.plan, head);
  const int64_t n = view.gamma.dim(0), d = layer.plan.shape.d;
  if (out.rank != 2 || out.dtype != DType::kF32 || out.dim(0) != n || out.dim(1) != d) {
    return invalid_argument("decode_side: out is %s, want [%lld, %lld] F32", describe(out).c_str(),
                            static_cast<long long>(n), static_cast<long long>(d));
  }
  std::vector<float> residual(static_cast<size_t>(view.codes.dim(0) * d));
  VESTIGE_TRY(ops::decode_rotated({.codes = view.codes,
                                   .scale = view.scale,
                                   .bits = layer.plan.layout.bits,
                                   .seed = layer.rotation_seed,
                                   .x = {residual.data(), DType::kF32, {view.codes.dim(0), d}}},
                                  stream));
  for (int64_t t = 0; t < n; ++t) {
    const float gamma = load_gamma(view.gamma, t);
    const int64_t anchor = load_index(view.index, t) * d, row = residual_row(view, t);
    float* x = out.as<float>() + t * out.stride[0];
    for (int64_t j = 0; j < d; ++j) {
      x[j] = gamma * load_number(view.anchors.data, view.anchors.dtype, anchor + j);
      if (row >= 0) x[j] += residual[static_cast<size_t>(row * d + j)];
    }
  }
  return {};
}

}  // namespace vestige::anchor
