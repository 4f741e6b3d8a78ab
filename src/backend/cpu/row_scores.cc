#include "backend/cpu/row_scores.h"

#include <algorithm>

namespace vestige::cpu {

void score_rows_of(const QueryRows& queries, const RowPages& rows, int64_t begin, int64_t end, const ScoreOut& out) {
  const RowLayout& l = rows.layout;
  for (int64_t u = begin; u < end;) {
    const int64_t page = u / rows.page_rows, first = page * rows.page_rows;
    const int64_t stop = std::min(end, first + rows.page_rows);
    GemmParams p = {.x = queries.q,
                    .x_stride = queries.stride,
                    .m = queries.n,
                    .w = {rows.content[page], l.dtype, rows.page_rows, l.d_content, rows.content_stride},
                    .col_begin = u - first,
                    .col_end = stop - first,
                    .out = out.scores + (u - begin),
                    .out_stride = out.stride,
                    .scratch = out.pack};
    if (l.scored_content) gemm_slice(p);
    if (l.d_branch > 0) {
      p.x = queries.q + l.d_content;
      p.w = {rows.branch[page], l.dtype, rows.page_rows, l.d_branch, rows.branch_stride};
      p.accumulate = l.scored_content;
      gemm_slice(p);
    }
    u = stop;
  }
}

}  // namespace vestige::cpu
