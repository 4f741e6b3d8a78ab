#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/row_tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attend_prefill.cc"
#include "hwy/foreach_target.h"
// After foreach_target: compiled once a target.
#include "backend/cpu/prefill_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu::HWY_NAMESPACE {
namespace {

Status attend(const AttendPrefillParams& p, Stream& stream) {
  if (p.q.dim(0) == 0) return {};
  const int64_t d_nope = p.w_uk.dim(1), d_v = p.w_uv.dim(1), d_content = p.rows.layout.d_content;
  const int64_t n_weight = std::max(d_nope, d_v) * d_content, n_rows = p.position + p.q.dim(0);
  PrefillWork w = {.q = p.q.as<float>(),
                   .out = p.out.as<float>(),
                   .t = p.q.dim(0),
                   .h = p.q.dim(1),
                   .n_kv = p.q.dim(1),
                   .d_qk = p.q.dim(2),
                   .d_v = d_v,
                   .position = p.position,
                   .scale = p.scale,
                   .expand_size = line_floats(kRowTile * d_content) + line_floats(n_weight)};
  // Keys and values of one head: its part of W_UK and W_UV times the content.
  const auto expand = [&](const KeyTile& tile) {
    Slices slices(tile.scratch);
    float* content = slices.take(kRowTile * d_content);
    float* weight = slices.take(n_weight);
    widen_content(p.rows, tile.row, n_rows, {content, d_content, kRowTile});
    const auto multiply = [&](const ConstTensorView& all, float* out, int64_t out_stride) {
      const int64_t bytes = all.stride[0] * static_cast<int64_t>(dtype_bytes(all.dtype));
      widen_numbers(all.as<std::byte>() + tile.key_head * bytes, all.dtype, all.dim(1) * d_content, weight);
      sgemm({.m = kRowTile,
             .n = all.dim(1),
             .k = d_content,
             .a = {content, d_content},
             .b = {weight, d_content, true},
             .out = out,
             .out_stride = out_stride});
    };
    multiply(p.w_uk, tile.keys, w.d_qk);
    widen_branch(p.rows, tile.row, n_rows, {tile.keys + d_nope, w.d_qk, kRowTile});
    multiply(p.w_uv, tile.values, d_v);
  };
  return attend_spans(w, expand, stream);
}

}  // namespace
}  // namespace vestige::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(attend);

Status attend_prefill(const AttendPrefillParams& p, Stream& stream) { return HWY_DYNAMIC_DISPATCH(attend)(p, stream); }

}  // namespace vestige::cpu
#endif  // HWY_ONCE
