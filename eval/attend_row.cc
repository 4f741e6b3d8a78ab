#include "eval/attend_row.h"

namespace vestige::eval {

std::vector<float> row_at(const WideRows& rows, const RowLayout& layout, int64_t u) {
  std::vector<float> row(rows.content.begin() + u * layout.d_content,
                         rows.content.begin() + (u + 1) * layout.d_content);
  row.insert(row.end(), rows.branch.begin() + u * layout.d_branch, rows.branch.begin() + (u + 1) * layout.d_branch);
  return row;
}

Result<AttendedRow> attend_row(LayerCache& cache, const WideRows& rows, int64_t u, const ConstTensorView& q,
                               Stream& stream) {
  const int64_t h = cache.h_q(), d = cache.layout().d_content;
  const std::vector<float> row = row_at(rows, cache.layout(), u);
  AttendedRow a;
  a.out.resize(static_cast<size_t>(h * d));
  a.lse.resize(static_cast<size_t>(h));
  VESTIGE_TRY(cache.append(ConstTensorView(row.data(), DType::kF32, {1, cache.layout().d_row()}), stream));
  VESTIGE_TRY(cache.attend(q, TensorView(a.out.data(), DType::kF32, {1, h, d}),
                           TensorView(a.lse.data(), DType::kF32, {1, h}), &a.record, stream));
  VESTIGE_TRY(stream.synchronize());
  return a;
}

}  // namespace vestige::eval
