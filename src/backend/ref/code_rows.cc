#include "backend/ref/code_rows.h"

#include <algorithm>
#include <cmath>

#include "backend/ops/code_entries.h"
#include "backend/ops/norm_grid.h"

namespace vestige::ref {

namespace {

CodeRow row_of(const CodeSet& set, size_t s, int64_t u) {
  return {set.stages[s], s, set.pages.codes[s][u / set.pages.page_rows], u % set.pages.page_rows,
          set.transform.metric.dim(0)};
}

}  // namespace

CodedHead coded_head(const CodeSet& set, const float* q, int64_t head, int64_t h, float scale) {
  const RowTransform& t = set.transform;
  const int64_t d = t.mean.dim(0), rank = t.metric.dim(1);
  CodedHead out;
  out.group = head / (h / t.metric.dim(0));
  double square = 0, q_square = 0;
  for (int64_t j = 0; j < d; ++j) {
    double sum = 0;
    for (int64_t k = 0; k < d; ++k) sum += double(t.dual.as<float>()[j * d + k]) * double(q[k]);
    out.dual.push_back(sum);
    square += sum * sum;
    out.at_mean += double(q[j]) * double(t.mean.as<float>()[j]);
    q_square += double(q[j]) * double(q[j]);
  }
  square *= 1 + kWhiteRounding;
  for (int64_t r = 0; r < rank; ++r) {
    const float* row = t.white.as<float>() + (out.group * rank + r) * d;
    double sum = 0;
    for (int64_t k = 0; k < d; ++k) sum += double(row[k]) * out.dual[static_cast<size_t>(k)];
    square -= sum * sum;
  }
  const double inside = square / double(t.ridge.as<float>()[out.group]);
  out.norm = std::isnan(inside) ? inside : std::sqrt(std::max(0.0, inside));
  out.slack = kCodeRounding * double(scale) * std::sqrt(q_square) * double(set.max_row_norm);
  return out;
}

void add_coded(const CodeSet& set, size_t s, int64_t u, std::vector<double>* t) {
  const CodeStage& stage = set.stages[s];
  const CodeRow row = row_of(set, s, u);
  for (int32_t e = 0; e < stage.n_entries(); ++e) {
    const int32_t coord = stage.coord.as<int32_t>()[e];
    if (coord < 0) continue;
    const EntryPlace place(stage, e);
    (*t)[static_cast<size_t>(coord)] +=
        double(stage.weight.as<float>()[e]) * (double(row.piece(place)) - double(entry_middle(place.width)));
  }
}

double coded_norm(const CodeSet& set, size_t s, int64_t u, int64_t group) {
  const CodeStage& stage = set.stages[s];
  return double(stage.norm_base) * double(norm_grid()[row_of(set, s, u).norm(stage, group)]);
}

}  // namespace vestige::ref
