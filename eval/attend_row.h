#pragma once

// One step of a cache on the next row and the queries of full attention, for tasks that compare attention.

#include <vector>

#include "eval/reading.h"

namespace vestige::eval {

struct AttendedRow {
  std::vector<float> out, lse;  ///< [h_q, d_content], [h_q]
  StepRecord record;
};

/// Appends row u of `rows` and attends with that token's queries, [1, h_q, d_row].
Result<AttendedRow> attend_row(LayerCache& cache, const WideRows& rows, int64_t u, const ConstTensorView& q,
                               Stream& stream);

/// Row u, content and branch, [d_row].
std::vector<float> row_at(const WideRows& rows, const RowLayout& layout, int64_t u);

}  // namespace vestige::eval
