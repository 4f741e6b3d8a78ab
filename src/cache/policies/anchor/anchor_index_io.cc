// The coded segments to a file and back. What steers a read (sizes, indices, masks, prefixes) is checked against the
// byte plan of the sizes; numbers may be anything finite.

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "backend/ops/anchored_side.h"
#include "backend/ops/gamma_code.h"
#include "base/half.h"
#include "base/load_number.h"
#include "cache/policies/anchor/anchor_index.h"

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
  if (!c.position_ids.empty()) {
    out.push_back({"position_ids", DType::kI32, c.position_ids.data(), c.plan.shape.n_coded(), 1});
  }
  return out;
}

std::string name_of(const std::string& prefix, size_t segment, const char* array) {
  return prefix + "anchor" + std::to_string(segment) + "_" + array;
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

/// Nothing in it leads outside its arrays.
Status check_side(const std::string& name, const CodedSide& side, const BytePlan& plan, int64_t n_residuals) {
  const LayerShape& s = plan.shape;
  if (side.offset[0] != 0 || side.offset[1] != n_residuals) {
    return data_loss("%s_offset: %d to %d, want 0 to %lld", name.c_str(), side.offset[0], side.offset[1],
                     static_cast<long long>(n_residuals));
  }
  for (const uint16_t bits : side.anchors) {
    if (!std::isfinite(bf16_to_f32(bits))) return data_loss("%s_anchors: a number is not finite", name.c_str());
  }
  const AnchoredSide view = side.view(plan, 0);
  for (int64_t t = 0; t < s.n_coded(); ++t) {
    const int64_t index = load_index(view.index, t);
    if (index >= s.n_anchors || !std::isfinite(load_gamma(view.gamma, t))) {
      return data_loss("%s_index[%lld] = %lld times %g, want an index below %lld and a finite number", name.c_str(),
                       static_cast<long long>(t), static_cast<long long>(index),
                       static_cast<double>(load_gamma(view.gamma, t)), static_cast<long long>(s.n_anchors));
    }
  }
  int64_t count = 0;
  for (int64_t w = 0; w < s.n_words(); ++w) {
    const auto word = static_cast<uint64_t>(side.mask[static_cast<size_t>(w)]);
    const int64_t left = s.n_coded() - 64 * w;
    if (side.prefix[static_cast<size_t>(w)] != count || (left < 64 && word >> left != 0)) {
      return data_loss("%s_prefix[%lld] = %d with mask %llx, want %lld and no token past the last", name.c_str(),
                       static_cast<long long>(w), side.prefix[static_cast<size_t>(w)],
                       static_cast<unsigned long long>(word), static_cast<long long>(count));
    }
    count += std::popcount(word);
  }
  if (count != n_residuals) {
    return data_loss("%s_mask: %lld residuals, want %lld", name.c_str(), static_cast<long long>(count),
                     static_cast<long long>(n_residuals));
  }
  for (int64_t i = 0; i < n_residuals; ++i) {
    const float scale = load_number(view.scale.data, view.scale.dtype, i);
    if (!(scale >= 0) || std::isinf(scale)) {
      return data_loss("%s_scale[%lld] = %g, want 0 or more", name.c_str(), static_cast<long long>(i),
                       static_cast<double>(scale));
    }
  }
  return {};
}

/// What only readers of the code in its paper's form would follow: places, positions, ids.
Status check_places(const std::string& name, const CodedLayer& c) {
  size_t i = 0;
  for (size_t w = 0; w < c.value.mask.size(); ++w) {
    for (auto word = static_cast<uint64_t>(c.value.mask[w]); word != 0; word &= word - 1, ++i) {
      if (c.value.slot[i] == std::countr_zero(word)) continue;
      return data_loss("%svalue_slot[%zu] = %d, want %d", name.c_str(), i, c.value.slot[i], std::countr_zero(word));
    }
  }
  int64_t previous = -1;
  for (int64_t a = 0; a < c.plan.shape.n_selected(); ++a) {
    const int64_t at = c.anchor_position(0, a);
    if (at <= previous || at >= c.plan.shape.n_coded()) {
      return data_loss("%sanchor_positions[%lld] = %lld, want ascending numbers in [%lld, %lld)", name.c_str(),
                       static_cast<long long>(a), static_cast<long long>(at), static_cast<long long>(previous + 1),
                       static_cast<long long>(c.plan.shape.n_coded()));
    }
    previous = at;
  }
  for (size_t t = 0; t < c.position_ids.size(); ++t) {
    if (c.position_ids[t] == static_cast<int32_t>(t)) continue;
    return data_loss("%sposition_ids[%zu] = %d, want the place itself", name.c_str(), t, c.position_ids[t]);
  }
  return {};
}

}  // namespace

Status AnchorIndex::save(const std::string& prefix, TensorSink& sink) const {
  const uint8_t ready = ready_ ? 1 : 0;
  VESTIGE_TRY(sink.put(prefix + "index_ready", ConstTensorView(&ready, DType::kU8, {1})));
  if (!ready_) return {};
  VESTIGE_TRY(sink.put(prefix + "anchor_norm", ConstTensorView(&max_norm_, DType::kF32, {1})));
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

Status AnchorIndex::load_segment(const std::string& prefix, const TensorSource& source, const int64_t* sizes) {
  const size_t place = segments_.size();
  const std::string name = name_of(prefix, place, "");
  const int64_t end = n_closed_ - settings_.window;
  if (sizes[kFirst] != n_coded_ || sizes[kTokens] < 1 || sizes[kTokens] > end - n_coded_) {
    return data_loss("%ssizes: %lld rows from %lld on, want them from %lld up to %lld", name.c_str(),
                     static_cast<long long>(sizes[kTokens]), static_cast<long long>(sizes[kFirst]),
                     static_cast<long long>(n_coded_), static_cast<long long>(end));
  }
  const LayerShape shape = {
      .n_tokens = sizes[kTokens], .window = 0, .n_anchors = sizes[kAnchors], .n_heads = 1, .d = d()};
  const CodeLayout layout = settings_.lean ? lean_layout(sizes[kAnchors]) : paper_layout();
  const auto plan = plan_bytes(shape, layout, 1, sizes[kKeyResiduals], sizes[kValueResiduals]);
  if (!plan.ok()) return data_loss("%ssizes: %s", name.c_str(), plan.status().message().c_str());
  Segment segment;
  segment.first = sizes[kFirst];
  CodedLayer& c = segment.code;
  c.plan = *plan;
  c.rotation_seed = CodeSettings().rotation_seed;
  resize_side(&c.key, c.plan, c.plan.n_key);
  resize_side(&c.value, c.plan, c.plan.n_value);
  c.value.slot.resize(static_cast<size_t>(c.plan.n_value));
  c.anchor_positions.resize(static_cast<size_t>(shape.n_selected() * layout.anchor_position_bytes));
  if (layout.position_id_bytes > 0) c.position_ids.resize(static_cast<size_t>(shape.n_coded()));
  for (const auto& a : arrays_of(c)) {
    if (a.n == 0) continue;
    VESTIGE_ASSIGN(const ConstTensorView view, source.get(name + a.name, a.dtype, {a.n, a.width}));
    std::memcpy(a.data, view.data, static_cast<size_t>(a.n * a.width) * dtype_bytes(a.dtype));
  }
  VESTIGE_TRY(check_side(name + "key", c.key, c.plan, c.plan.n_key));
  VESTIGE_TRY(check_side(name + "value", c.value, c.plan, c.plan.n_value));
  VESTIGE_TRY(check_places(name, c));
  n_coded_ += shape.n_tokens;
  segments_.push_back(std::move(segment));
  return {};
}

Status AnchorIndex::load_segments(const std::string& prefix, const TensorSource& source) {
  VESTIGE_ASSIGN(const ConstTensorView view, source.get(prefix + "anchor_sizes", DType::kI64, {-1, kSizes}));
  for (int64_t i = 0; i < view.dim(0); ++i) {
    int64_t sizes[kSizes];
    std::memcpy(sizes, view.as<int64_t>() + i * kSizes, sizeof sizes);
    VESTIGE_TRY(load_segment(prefix, source, sizes));
  }
  if (n_coded_ == n_closed_ - settings_.window) return {};
  return data_loss("%sanchor_sizes: rows up to %lld, want %lld", prefix.c_str(), static_cast<long long>(n_coded_),
                   static_cast<long long>(n_closed_ - settings_.window));
}

Status AnchorIndex::load(const std::string& prefix, const TensorSource& source, int64_t n_closed) {
  AnchorIndex loaded(layout_, rotation_, settings_);
  VESTIGE_ASSIGN(const ConstTensorView flag, source.get(prefix + "index_ready", DType::kU8, {1}));
  const uint8_t ready = *flag.as<uint8_t>();
  if (ready > 1) return data_loss("%sindex_ready = %d, want 0 or 1", prefix.c_str(), ready);
  if (ready == 0) {
    *this = std::move(loaded);
    return {};
  }
  VESTIGE_ASSIGN(const ConstTensorView norm, source.get(prefix + "anchor_norm", DType::kF32, {1}));
  std::memcpy(&loaded.max_norm_, norm.data, sizeof(float));
  if (!(loaded.max_norm_ >= 0 && std::isfinite(loaded.max_norm_)))
    return data_loss("%sanchor_norm: want 0 or more", prefix.c_str());
  loaded.ready_ = true;
  loaded.n_closed_ = n_closed;
  if (n_closed > 0) VESTIGE_TRY(loaded.load_segments(prefix, source));
  *this = std::move(loaded);
  return {};
}

}  // namespace vestige::anchor
