#include "backend/ops/check_codes.h"

#include "backend/ops/check_rows.h"

namespace vestige::check {

namespace {

Status view(Field field, const ConstTensorView& v, DType dtype, std::initializer_list<int64_t> shape) {
  VESTIGE_TRY(tensor(field, v, {dtype}, shape));
  return dense(field, v);
}

}  // namespace

Status transform(const char* op, const RowTransform& t, int64_t d, int64_t h) {
  VESTIGE_TRY(view({op, "transform.mean"}, t.mean, DType::kF32, {d}));
  VESTIGE_TRY(view({op, "transform.forward"}, t.forward, DType::kF32, {d, d}));
  VESTIGE_TRY(view({op, "transform.dual"}, t.dual, DType::kF32, {d, d}));
  VESTIGE_TRY(view({op, "transform.metric"}, t.metric, DType::kF32, {-1, -1, d}));
  const int64_t n_groups = t.metric.dim(0), rank = t.metric.dim(1);
  if (n_groups < 1 || rank < 1 || (h > 0 && h % n_groups != 0)) {
    return invalid_argument("%s: transform.metric is %s, want groups that divide %" PRId64 " heads", op,
                            describe(t.metric).c_str(), h);
  }
  VESTIGE_TRY(view({op, "transform.white"}, t.white, DType::kF32, {n_groups, rank, d}));
  return view({op, "transform.ridge"}, t.ridge, DType::kF32, {n_groups});
}

Status stages(const char* op, std::span<const CodeStage> stages, int64_t d) {
  if (stages.empty() || stages.size() > 2) {
    return invalid_argument("%s: %zu stages, want 1 or 2", op, stages.size());
  }
  for (const CodeStage& s : stages) {
    for (const int32_t n : s.n_units) {
      if (n < 0 || n > (1 << 20)) return invalid_argument("%s: stage has %d units, want 0 to 2^20", op, n);
    }
    const int64_t n = s.n_entries();
    VESTIGE_TRY(view({op, "stage.coord"}, s.coord, DType::kI32, {n}));
    VESTIGE_TRY(view({op, "stage.shift"}, s.shift, DType::kI32, {n}));
    VESTIGE_TRY(view({op, "stage.weight"}, s.weight, DType::kF32, {n}));
    VESTIGE_TRY(view({op, "stage.bits"}, s.bits, DType::kI32, {d}));
    VESTIGE_TRY(view({op, "stage.step"}, s.step, DType::kF32, {d}));
    if (!(s.norm_base > 0 && s.norm_base < 1e30f)) {
      return invalid_argument("%s: stage.norm_base = %g, want above 0", op, static_cast<double>(s.norm_base));
    }
  }
  return {};
}

Status code_set(const char* op, const CodeSet& set, int64_t d, int64_t h) {
  VESTIGE_TRY(transform(op, set.transform, d, h));
  VESTIGE_TRY(stages(op, set.stages, d));
  if (set.d_content < 1 || set.d_content > d) {
    return invalid_argument("%s: d_content = %d, want 1 to %" PRId64, op, set.d_content, d);
  }
  for (const float z : set.z) {
    if (!(z >= 0 && z < 1e30f)) {
      return invalid_argument("%s: z = %g, want a number of at least 0", op, static_cast<double>(z));
    }
  }
  if (!(set.max_row_norm >= 0)) {
    return invalid_argument("%s: max_row_norm = %g, want at least 0", op, static_cast<double>(set.max_row_norm));
  }
  const CodePages& p = set.pages;
  if (p.n_rows < 0 || p.n_rows > INT32_MAX) {
    return invalid_argument("%s: n_rows = %" PRId64 ", want 0 to %d", op, p.n_rows, INT32_MAX);
  }
  if (p.n_rows == 0) return {};
  if (p.page_rows <= 0) return invalid_argument("%s: page_rows = %" PRId64 ", want at least 1", op, p.page_rows);
  for (size_t s = 0; s < set.stages.size(); ++s) {
    if (p.codes[s] == nullptr) return invalid_argument("%s: the pages of stage %zu are null", op, s);
  }
  return {};
}

}  // namespace vestige::check
