// The coded segments to a file and back. What comes from a file is held against the byte plan of its sizes by
// check_layer.

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cache/policies/anchor/anchor_index.h"
#include "cache/policies/anchor/segment_io.h"

namespace vestige::anchor {

namespace {

enum Size : uint8_t { kFirst, kTokens, kAnchors, kKeyResiduals, kValueResiduals, kSizes };

/// One array of a segment: its name, type, sizes and where it lies.
template <class Pointer>
struct Array {
  const char* name;
  DType dtype;
  Pointer data;
  int64_t n, width;
};

template <class Pointer, class Side>
void list_side(const char* const* names, Side& side, const BytePlan& plan, int64_t n_residuals,
               std::vector<Array<Pointer>>* out) {
  const LayerShape& s = plan.shape;
  const CodeLayout& l = plan.layout;
  out->push_back({names[0], DType::kBF16, side.anchors.data(), s.n_anchors, s.d});
  out->push_back({names[1], DType::kU8, side.index.data(), s.n_coded(), l.index_bytes});
  out->push_back({names[2], DType::kU8, side.gamma.data(), s.n_coded(), l.gamma_bytes});
  out->push_back({names[3], DType::kI64, side.mask.data(), s.n_words(), 1});
  out->push_back({names[4], DType::kI32, side.prefix.data(), s.n_words(), 1});
  out->push_back({names[5], DType::kI32, side.offset.data(), 2, 1});
  out->push_back({names[6], DType::kU8, side.codes.data(), n_residuals, s.d * l.bits / 8});
  out->push_back({names[7], DType::kU8, side.scale.data(), n_residuals, l.scale_bytes});
}

/// Every array of a segment (const: to save, else to fill), in a fixed order.
template <class Layer>
auto arrays_of(Layer& c) {
  static constexpr const char* kKey[] = {"key_anchors", "key_index",  "key_gamma", "key_mask",
                                         "key_prefix",  "key_offset", "key_codes", "key_scale"};
  static constexpr const char* kValue[] = {"value_anchors", "value_index",  "value_gamma", "value_mask",
                                           "value_prefix",  "value_offset", "value_codes", "value_scale"};
  using Pointer = std::conditional_t<std::is_const_v<Layer>, const void*, void*>;
  std::vector<Array<Pointer>> out;
  list_side(kKey, c.key, c.plan, c.plan.n_key, &out);
  list_side(kValue, c.value, c.plan, c.plan.n_value, &out);
  out.push_back({"value_slot", DType::kU8, c.value.slot.data(), c.plan.n_value, 1});
  out.push_back({"anchor_positions", DType::kU8, c.anchor_positions.data(), c.plan.shape.n_selected(),
                 c.plan.layout.anchor_position_bytes});
  const int64_t n = c.plan.shape.n_coded(), d = c.plan.shape.d, n_bytes = c.plan.layout.sketch_bytes;
  const int64_t r = sketch_rank(d, n_bytes);
  if (c.plan.layout.key_bound_bytes > 0) out.push_back({"key_bound", DType::kU8, c.key.bound.data(), n, 1});
  if (c.plan.layout.value_bound_bytes > 0) out.push_back({"value_bound", DType::kU8, c.value.bound.data(), n, 1});
  if (n_bytes > 0) {
    out.push_back({"sketch_basis", DType::kU8, c.sketch.basis.data(), r, d});
    out.push_back({"sketch_bits", DType::kU8, c.sketch.bits.data(), r, 1});
    out.push_back({"sketch_range", DType::kF32, c.sketch.range.data(), r, 1});
    out.push_back({"sketch_gain", DType::kU8, c.sketch.gain.data(), n, 1});
    out.push_back({"sketch_codes", DType::kU8, c.sketch.codes.data(), n, n_bytes});
  }
  if (c.plan.layout.position_id_bytes > 0) {
    out.push_back({"position_ids", DType::kI32, c.position_ids.data(), c.plan.shape.n_coded(), 1});
  }
  return out;
}

void resize_side(CodedSide* side, const BytePlan& plan, int64_t n_residuals) {
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  const LayerShape& s = plan.shape;
  side->anchors.resize(size(s.n_anchors * s.d));
  side->index.resize(size(s.n_coded() * plan.layout.index_bytes));
  side->gamma.resize(size(s.n_coded() * plan.layout.gamma_bytes));
  side->mask.resize(size(s.n_words()));
  side->prefix.resize(size(s.n_words()));
  side->offset.resize(2);
  side->codes.resize(size(n_residuals * s.d * plan.layout.bits / 8));
  side->scale.resize(size(n_residuals * plan.layout.scale_bytes));
}

}  // namespace

Status AnchorIndex::save(const std::string& prefix, TensorSink& sink) const {
  VESTIGE_TRY(save_state(prefix, "anchor_norm", sink));
  if (segments_.empty()) return {};
  std::vector<int64_t> sizes;
  for (const Segment& s : segments_) {
    const BytePlan& p = s.code.plan;
    sizes.insert(sizes.end(), {s.first, p.shape.n_tokens, p.shape.n_anchors, p.n_key, p.n_value});
  }
  const auto n = static_cast<int64_t>(segments_.size());
  VESTIGE_TRY(sink.put(prefix + "anchor_sizes", ConstTensorView(sizes.data(), DType::kI64, {n, kSizes})));
  for (size_t i = 0; i < segments_.size(); ++i) {
    for (const auto& a : arrays_of(segments_[i].code)) {
      if (a.n == 0) continue;
      VESTIGE_TRY(sink.put(name_of(prefix, i, a.name), ConstTensorView(a.data, a.dtype, {a.n, a.width})));
    }
  }
  return {};
}

Status AnchorIndex::load_segment(const std::string& prefix, const TensorSource& source, const int64_t* sizes,
                                 int64_t first) {
  const size_t place = segments_.size();
  const std::string name = name_of(prefix, place, "");
  const int64_t end = span().coded_end(n_closed_);
  if (sizes[kFirst] != first || sizes[kTokens] < 1 || sizes[kTokens] > end - first) {
    return data_loss("%ssizes: %lld rows from %lld on, want them from %lld up to %lld", name.c_str(),
                     static_cast<long long>(sizes[kTokens]), static_cast<long long>(sizes[kFirst]),
                     static_cast<long long>(first), static_cast<long long>(end));
  }
  const LayerShape shape = {
      .n_tokens = sizes[kTokens], .window = 0, .n_anchors = sizes[kAnchors], .n_heads = 1, .d = d()};
  const CodeLayout layout = segment_layout(settings_, sizes[kAnchors]);
  const auto plan = plan_bytes(shape, layout, 1, sizes[kKeyResiduals], sizes[kValueResiduals]);
  if (!plan.ok()) return data_loss("%ssizes: %s", name.c_str(), plan.status().message().c_str());
  Segment segment;
  segment.first = first;
  CodedLayer& c = segment.code;
  c.plan = *plan;
  c.rotation_seed = CodeSettings().rotation_seed;
  for (const auto& a : arrays_of(c)) {  // before memory is taken
    if (a.n > 0) VESTIGE_TRY(source.get(name + a.name, a.dtype, {a.n, a.width}).status());
  }
  resize_side(&c.key, c.plan, c.plan.n_key);
  resize_side(&c.value, c.plan, c.plan.n_value);
  c.key.bound.resize(static_cast<size_t>(layout.key_bound_bytes * shape.n_coded()));
  c.value.bound.resize(static_cast<size_t>(layout.value_bound_bytes * shape.n_coded()));
  c.sketch.resize(1, shape.n_coded(), shape.d, layout.sketch_bytes);
  c.value.slot.resize(static_cast<size_t>(c.plan.n_value));
  c.anchor_positions.resize(static_cast<size_t>(shape.n_selected() * layout.anchor_position_bytes));
  if (layout.position_id_bytes > 0) c.position_ids.resize(static_cast<size_t>(shape.n_coded()));
  for (const auto& a : arrays_of(c)) {
    if (a.n == 0) continue;
    VESTIGE_ASSIGN(const ConstTensorView view, source.get(name + a.name, a.dtype, {a.n, a.width}));
    std::memcpy(a.data, view.data, static_cast<size_t>(a.n * a.width) * dtype_bytes(a.dtype));
  }
  const Status fits = check_layer(c);
  if (!fits.ok()) return fits.with_context(name.substr(0, name.size() - 1));
  segments_.push_back(std::move(segment));
  return {};
}

Status AnchorIndex::load(const std::string& prefix, const TensorSource& source, int64_t n_closed) {
  AnchorIndex loaded(layout_, rotation_, settings_);
  VESTIGE_TRY(loaded.load_state(prefix, "anchor_norm", std::numeric_limits<float>::max(), source, n_closed));
  if (loaded.n_closed_ > 0) {
    VESTIGE_TRY(load_segments<kSizes>(
        prefix, source, span().n_sinks, span().coded_end(n_closed),
        [&](const int64_t* sizes, int64_t first) { return loaded.load_segment(prefix, source, sizes, first); }));
  }
  *this = std::move(loaded);
  return {};
}

}  // namespace vestige::anchor
