#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/row_tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attend_prefill_gqa.cc"
#include "hwy/foreach_target.h"
// After foreach_target: compiled once a target.
#include "backend/cpu/prefill_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu::HWY_NAMESPACE {
namespace {

Status attend_gqa(const AttendPrefillGqaParams& p, Stream& stream) {
  if (p.q.dim(0) == 0) return {};
  const int64_t n_rows = p.position + p.q.dim(0);
  PrefillWork w = {.q = p.q.as<float>(),
                   .out = p.out.as<float>(),
                   .t = p.q.dim(0),
                   .h = p.q.dim(1),
                   .n_kv = static_cast<int64_t>(p.rows.size()),
                   .d_qk = p.q.dim(2),
                   .d_v = p.out.dim(2),
                   .position = p.position,
                   .scale = p.scale};
  const auto expand = [&](const KeyTile& tile) {
    const RowPages& rows = p.rows[static_cast<size_t>(tile.key_head)];
    widen_branch(rows, tile.row, n_rows, {tile.keys, w.d_qk, kRowTile});
    widen_content(rows, tile.row, n_rows, {tile.values, w.d_v, kRowTile});
  };
  return attend_spans(w, expand, stream);
}

}  // namespace
}  // namespace vestige::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(attend_gqa);

Status attend_prefill_gqa(const AttendPrefillGqaParams& p, Stream& stream) {
  return HWY_DYNAMIC_DISPATCH(attend_gqa)(p, stream);
}

}  // namespace vestige::cpu
#endif  // HWY_ONCE
