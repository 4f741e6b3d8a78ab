#include "cache/policies/anchor/byte_plan.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>

#include "cache/policies/anchor/key_sketch.h"

namespace vestige::anchor {

namespace {

// With these no product below passes 2^60.
constexpr int64_t kMaxTokens = INT32_MAX, kMaxHeads = 4096, kMaxWidth = 4096, kMaxAnchors = 65536;

Status check_range(const char* field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return {};
  return invalid_argument("anchor plan: %s = %" PRId64 ", want %" PRId64 " to %" PRId64, field, value, low, high);
}

Status check_shape(const LayerShape& s) {
  VESTIGE_TRY(check_range("n_tokens", s.n_tokens, 1, kMaxTokens));
  VESTIGE_TRY(check_range("window", s.window, 0, s.n_tokens));
  VESTIGE_TRY(check_range("n_anchors", s.n_anchors, std::max<int64_t>(s.window, 1), std::min(s.n_tokens, kMaxAnchors)));
  VESTIGE_TRY(check_range("n_heads", s.n_heads, 1, kMaxHeads));
  VESTIGE_TRY(check_range("d", s.d, 8, kMaxWidth));
  if ((s.d & (s.d - 1)) != 0) return invalid_argument("anchor plan: d = %" PRId64 ", want a power of two", s.d);
  return {};
}

Status check_choice(const char* field, int32_t value, int32_t a, int32_t b) {
  if (value == a || value == b) return {};
  return invalid_argument("anchor plan: %s = %d, want %d or %d", field, value, a, b);
}

Status check_layout(const CodeLayout& l, const LayerShape& s) {
  VESTIGE_TRY(check_choice("index_bytes", l.index_bytes, 1, 2));
  VESTIGE_TRY(check_choice("gamma_bytes", l.gamma_bytes, 1, 2));
  VESTIGE_TRY(check_choice("scale_bytes", l.scale_bytes, 2, 4));
  VESTIGE_TRY(check_choice("anchor_position_bytes", l.anchor_position_bytes, 4, 8));
  VESTIGE_TRY(check_choice("position_id_bytes", l.position_id_bytes, 0, 4));
  VESTIGE_TRY(check_choice("key_bound_bytes", l.key_bound_bytes, 0, 1));
  VESTIGE_TRY(check_choice("value_bound_bytes", l.value_bound_bytes, 0, 1));
  VESTIGE_TRY(check_range("bits", l.bits, 2, 4));
  VESTIGE_TRY(check_range("sketch_bytes", l.sketch_bytes, 0, l.key_bound_bytes == 1 ? s.d : 0));
  if (l.index_bytes == 1) VESTIGE_TRY(check_range("n_anchors with a one-byte index", s.n_anchors, s.window, 256));
  return {};
}

Result<BytePlan> empty_plan(const LayerShape& shape, const CodeLayout& layout, double ratio) {
  VESTIGE_TRY(check_shape(shape));
  VESTIGE_TRY(check_layout(layout, shape));
  if (!(ratio >= 1 && ratio <= 1e6)) return invalid_argument("anchor plan: ratio = %g, want 1 to 1e6", ratio);
  BytePlan plan;
  plan.shape = shape;
  plan.layout = layout;
  plan.full_bytes = 4 * shape.n_tokens * shape.n_heads * shape.d;
  plan.budget_bytes = static_cast<int64_t>(std::floor(static_cast<double>(plan.full_bytes) / ratio));
  const int64_t base = plan.base_bytes();
  if (base > plan.budget_bytes) {
    return invalid_argument(
        "anchor plan: ratio = %g, want at most %.2f: anchors and indices alone take %" PRId64 " of %" PRId64 " bytes",
        ratio, static_cast<double>(plan.full_bytes) / static_cast<double>(base), base, plan.full_bytes);
  }
  return plan;
}

}  // namespace

CodeLayout paper_layout() { return {}; }

CodeLayout lean_layout(int64_t n_anchors) {
  CodeLayout layout;
  layout.index_bytes = n_anchors <= 256 ? 1 : 2;
  layout.gamma_bytes = 1;
  layout.scale_bytes = 2;
  layout.anchor_position_bytes = 4;
  layout.position_id_bytes = 0;
  return layout;
}

int64_t default_anchors(int64_t n_tokens, int64_t window) { return std::max(window, n_tokens / 128); }

std::vector<ArrayBytes> BytePlan::arrays() const {
  const int64_t h = shape.n_heads, coded = h * shape.n_coded(), words = h * shape.n_words();
  const int64_t codes = shape.d * layout.bits / 8, sketched = h * sketch_rank(shape.d, layout.sketch_bytes);
  return {{"key_anchors", 2 * h * shape.n_anchors * shape.d},
          {"value_anchors", 2 * h * shape.n_anchors * shape.d},
          {"anchor_positions", h * shape.n_selected() * layout.anchor_position_bytes},
          {"position_ids", shape.n_coded() * layout.position_id_bytes},
          {"key_index", coded * layout.index_bytes},
          {"value_index", coded * layout.index_bytes},
          {"key_gamma", coded * layout.gamma_bytes},
          {"value_gamma", coded * layout.gamma_bytes},
          {"key_bound", coded * layout.key_bound_bytes},
          {"value_bound", coded * layout.value_bound_bytes},
          {"sketch_basis", sketched * shape.d},
          {"sketch_bits", sketched},
          {"sketch_range", 4 * sketched},
          {"sketch_gain", layout.sketch_bytes > 0 ? coded : 0},
          {"sketch_codes", coded * layout.sketch_bytes},
          {"key_mask", 8 * words},
          {"value_mask", 8 * words},
          {"key_prefix", 4 * words},
          {"value_prefix", 4 * words},
          {"key_offset", 4 * (h + 1)},
          {"value_offset", 4 * (h + 1)},
          {"key_codes", n_key * codes},
          {"value_codes", n_value * codes},
          {"key_scale", n_key * layout.scale_bytes},
          {"value_scale", n_value * layout.scale_bytes},
          {"value_slot", n_value}};
}

int64_t BytePlan::total_bytes() const {
  int64_t total = 0;
  for (const ArrayBytes& array : arrays()) total += array.n_bytes;
  return total;
}

int64_t BytePlan::base_bytes() const {
  return total_bytes() - n_key * key_residual_bytes() - n_value * value_residual_bytes();
}

int64_t BytePlan::key_residual_bytes() const { return shape.d * layout.bits / 8 + layout.scale_bytes; }
int64_t BytePlan::value_residual_bytes() const { return key_residual_bytes() + 1; }

double BytePlan::density() const {
  const int64_t n = 2 * shape.n_heads * shape.n_coded();
  return n == 0 ? 0 : static_cast<double>(n_residuals()) / static_cast<double>(n);
}

double BytePlan::ratio_after(int64_t n_dense) const {
  const double dense = 4.0 * static_cast<double>(n_dense * shape.n_heads * shape.d);
  return (static_cast<double>(full_bytes) + dense) / (static_cast<double>(total_bytes()) + dense);
}

Result<BytePlan> plan_bytes(const LayerShape& shape, const CodeLayout& layout, double ratio) {
  VESTIGE_ASSIGN(BytePlan plan, empty_plan(shape, layout, ratio));
  const int64_t room = plan.budget_bytes - plan.base_bytes();
  const int64_t pair = plan.key_residual_bytes() + plan.value_residual_bytes();
  // Offsets and prefixes count residuals in 32 bits.
  const int64_t most = std::min<int64_t>(2 * shape.n_candidates(), 2 * int64_t{INT32_MAX});
  const int64_t n = std::min(2 * room / pair, most);
  // An odd residual is a value's, half a byte over the mean. It fits: pair is odd, so n * pair is odd and below 2 *
  // room.
  plan.n_key = n / 2;
  plan.n_value = n - plan.n_key;
  return plan;
}

Result<BytePlan> plan_bytes(const LayerShape& shape, const CodeLayout& layout, double ratio, int64_t n_key,
                            int64_t n_value) {
  VESTIGE_ASSIGN(BytePlan plan, empty_plan(shape, layout, ratio));
  const int64_t most = std::min<int64_t>(shape.n_candidates(), INT32_MAX);
  VESTIGE_TRY(check_range("n_key", n_key, 0, most));
  VESTIGE_TRY(check_range("n_value", n_value, 0, most));
  plan.n_key = n_key;
  plan.n_value = n_value;
  if (plan.total_bytes() <= plan.budget_bytes) return plan;
  return invalid_argument("anchor plan: %" PRId64 " + %" PRId64 " residuals take %" PRId64
                          " bytes, want at most %" PRId64,
                          n_key, n_value, plan.total_bytes(), plan.budget_bytes);
}

}  // namespace vestige::anchor
