#include <bit>
#include <cinttypes>
#include <cmath>

#include "backend/ops/gamma_code.h"
#include "base/half.h"
#include "base/load_number.h"
#include "cache/policies/anchor/coded_layer.h"

namespace vestige::anchor {

namespace {

Status check_size(const char* name, int64_t got, int64_t want) {
  if (got == want) return {};
  return data_loss("anchor: %s has %" PRId64 " elements, want %" PRId64, name, got, want);
}

template <class T>
int64_t size_of(const std::vector<T>& v) {
  return static_cast<int64_t>(v.size());
}

Status check_sizes(const BytePlan& plan, const CodedSide& side, bool is_key) {
  const LayerShape& s = plan.shape;
  const CodeLayout& l = plan.layout;
  const int64_t tokens = s.n_heads * s.n_coded(), words = s.n_heads * s.n_words();
  const int64_t n = is_key ? plan.n_key : plan.n_value;
  VESTIGE_TRY(check_size("anchors", size_of(side.anchors), s.n_heads * s.n_anchors * s.d));
  VESTIGE_TRY(check_size("index", size_of(side.index), tokens * l.index_bytes));
  VESTIGE_TRY(check_size("gamma", size_of(side.gamma), tokens * l.gamma_bytes));
  VESTIGE_TRY(check_size("bound", size_of(side.bound), tokens * (is_key ? l.key_bound_bytes : l.value_bound_bytes)));
  VESTIGE_TRY(check_size("mask", size_of(side.mask), words));
  VESTIGE_TRY(check_size("prefix", size_of(side.prefix), words));
  VESTIGE_TRY(check_size("offset", size_of(side.offset), s.n_heads + 1));
  VESTIGE_TRY(check_size("codes", size_of(side.codes), n * (s.d * l.bits / 8)));
  VESTIGE_TRY(check_size("scale", size_of(side.scale), n * l.scale_bytes));
  return check_size("slot", size_of(side.slot), is_key ? 0 : n);
}

/// Masks say where residuals are; prefixes, offsets and slots must say the same.
Status check_residuals(const BytePlan& plan, const CodedSide& side, bool is_key) {
  const LayerShape& s = plan.shape;
  const int64_t n = is_key ? plan.n_key : plan.n_value;
  int64_t total = 0;
  for (int64_t h = 0; h < s.n_heads; ++h) {
    if (side.offset[static_cast<size_t>(h)] != total) {
      return data_loss("anchor: the residuals of head %" PRId64 " begin at %d, want %" PRId64, h,
                       side.offset[static_cast<size_t>(h)], total);
    }
    int64_t count = 0;
    for (int64_t w = 0; w < s.n_words(); ++w) {
      const auto at = static_cast<size_t>(h * s.n_words() + w);
      const auto word = static_cast<uint64_t>(side.mask[at]);
      const int64_t left = s.n_coded() - 64 * w;
      if (side.prefix[at] != count || (left < 64 && word >> left != 0)) {
        return data_loss("anchor: word %" PRId64 " of the residual mask of head %" PRId64 " does not fit", w, h);
      }
      const int n_set = std::popcount(word);
      if (total + count + n_set > n) return data_loss("anchor: masks with more than the %" PRId64 " residuals", n);
      uint64_t rest = word;
      for (int i = 0; i < n_set && !is_key; ++i, rest &= rest - 1) {
        if (side.slot[static_cast<size_t>(total + count + i)] != std::countr_zero(rest)) {
          return data_loss("anchor: slot of residual %" PRId64 " is not its token's place", total + count + i);
        }
      }
      count += n_set;
    }
    total += count;
  }
  if (total == n && side.offset.back() == n) return {};
  return data_loss("anchor: masks with %" PRId64 " residuals, want %" PRId64, total, n);
}

Status check_sketch(const BytePlan& plan, const KeySketch& sketch) {
  const LayerShape& s = plan.shape;
  const int64_t n_bytes = plan.layout.sketch_bytes, r = sketch_rank(s.d, n_bytes), tokens = s.n_heads * s.n_coded();
  VESTIGE_TRY(check_size("sketch_basis", size_of(sketch.basis), s.n_heads * r * s.d));
  VESTIGE_TRY(check_size("sketch_bits", size_of(sketch.bits), s.n_heads * r));
  VESTIGE_TRY(check_size("sketch_range", size_of(sketch.range), s.n_heads * r));
  VESTIGE_TRY(check_size("sketch_gain", size_of(sketch.gain), n_bytes > 0 ? tokens : 0));
  VESTIGE_TRY(check_size("sketch_codes", size_of(sketch.codes), tokens * n_bytes));
  for (int64_t h = 0; h < s.n_heads; ++h) {
    int64_t n_bits = 0;
    for (int64_t j = h * r; j < (h + 1) * r; ++j) {
      const int bits = sketch.bits[static_cast<size_t>(j)];
      const float range = sketch.range[static_cast<size_t>(j)];
      if (bits > 8 || !(range >= 0 && std::isfinite(range))) {
        return data_loss("anchor: direction %" PRId64 " of the sketches has %d bits and range %g, want 0 to 8 and >= 0",
                         j, bits, static_cast<double>(range));
      }
      n_bits += bits;
    }
    if (n_bits > 8 * n_bytes)
      return data_loss("anchor: sketches of %" PRId64 " bits in %" PRId64 " bytes", n_bits, n_bytes);
  }
  return {};
}

Status check_index(const BytePlan& plan, const CodedSide& side) {
  const int64_t width = plan.layout.index_bytes;
  for (size_t i = 0; i < side.index.size(); i += static_cast<size_t>(width)) {
    const int64_t anchor = side.index[i] + (width == 2 ? 256 * side.index[i + 1] : 0);
    if (anchor >= plan.shape.n_anchors) {
      return data_loss("anchor: a token of anchor %" PRId64 ", want below %" PRId64, anchor, plan.shape.n_anchors);
    }
  }
  return {};
}

/// Numbers that are not finite would spread to every output. After check_residuals: views follow the offsets.
Status check_numbers(const BytePlan& plan, const CodedSide& side) {
  for (const uint16_t bits : side.anchors) {
    if (!std::isfinite(bf16_to_f32(bits))) return data_loss("anchor: a number of an anchor is not finite");
  }
  for (int64_t h = 0; h < plan.shape.n_heads; ++h) {
    const AnchoredSide view = side.view(plan, h);
    for (int64_t t = 0; t < plan.shape.n_coded(); ++t) {
      if (!std::isfinite(load_gamma(view.gamma, t))) return data_loss("anchor: a coefficient is not finite");
    }
    for (int64_t i = 0; i < view.scale.dim(0); ++i) {
      const float scale = load_number(view.scale.data, view.scale.dtype, i);
      if (scale >= 0 && std::isfinite(scale)) continue;
      return data_loss("anchor: scale %" PRId64 " = %g, want 0 or more", i, static_cast<double>(scale));
    }
  }
  return {};
}

}  // namespace

Status check_layer(const CodedLayer& layer) {
  const BytePlan& plan = layer.plan;
  const LayerShape& s = plan.shape;
  // Shape, layout and counts first: they say how large the arrays must be.
  const Result<BytePlan> valid = plan_bytes(s, plan.layout, 1, plan.n_key, plan.n_value);
  if (!valid.ok()) return data_loss("%s", valid.status().message().c_str());
  VESTIGE_TRY(check_size("anchor_positions", size_of(layer.anchor_positions),
                         s.n_heads * s.n_selected() * plan.layout.anchor_position_bytes));
  VESTIGE_TRY(
      check_size("position_ids", size_of(layer.position_ids), plan.layout.position_id_bytes > 0 ? s.n_coded() : 0));
  for (const bool is_key : {true, false}) {
    const CodedSide& side = is_key ? layer.key : layer.value;
    VESTIGE_TRY(check_sizes(plan, side, is_key));
    VESTIGE_TRY(check_residuals(plan, side, is_key));
    VESTIGE_TRY(check_index(plan, side));
    VESTIGE_TRY(check_numbers(plan, side));
  }
  VESTIGE_TRY(check_sketch(plan, layer.sketch));
  for (size_t t = 0; t < layer.position_ids.size(); ++t) {
    if (layer.position_ids[t] == static_cast<int32_t>(t)) continue;
    return data_loss("anchor: position %zu is %d, want the place itself", t, layer.position_ids[t]);
  }
  for (int64_t h = 0; h < s.n_heads; ++h) {
    int64_t last = -1;
    for (int64_t a = 0; a < s.n_selected(); ++a) {
      const int64_t position = layer.anchor_position(h, a);
      if (position <= last || position >= s.n_coded()) {
        return data_loss("anchor: anchor %" PRId64 " of head %" PRId64 " at position %" PRId64, a, h, position);
      }
      last = position;
    }
  }
  return {};
}

}  // namespace vestige::anchor
