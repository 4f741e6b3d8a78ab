#include "backend/ref/code_rows.h"

#include <algorithm>
#include <cmath>

#include "backend/ops/code_entries.h"
#include "backend/ops/norm_grid.h"

namespace vestige::ref {

namespace {

struct RowBytes {
  const uint8_t* at;
  int64_t lanes;  // bytes of a unit lie 4 * lanes apart

  RowBytes(const CodeSet& set, size_t s, int64_t u) {
    constexpr int64_t kTile = CodeStage::kTileRows;
    const int64_t row_bytes = set.stages[s].row_bytes(set.transform.metric.dim(0));
    const int64_t in = u % set.pages.page_rows;
    const auto* page = static_cast<const uint8_t*>(set.pages.codes[s][u / set.pages.page_rows]);
    lanes = s == 0 ? kTile : 1;
    at = s == 0 ? page + in / kTile * kTile * row_bytes : page + in * row_bytes;
    lane = s == 0 ? in % kTile : 0;
  }
  int64_t lane;
};

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
  const RowBytes row(set, s, u);
  for (int32_t e = 0; e < stage.n_entries(); ++e) {
    const int32_t coord = stage.coord.as<int32_t>()[e];
    if (coord < 0) continue;
    const EntryPlace place(stage, e);
    const uint8_t byte = row.at[(place.unit * row.lanes + row.lane) * 4 + place.byte];
    const int32_t piece = byte >> place.at & ((1 << place.width) - 1);
    (*t)[static_cast<size_t>(coord)] +=
        double(stage.weight.as<float>()[e]) * (double(piece) - double(entry_middle(place.width)));
  }
}

double coded_norm(const CodeSet& set, size_t s, int64_t u, int64_t group) {
  const CodeStage& stage = set.stages[s];
  const RowBytes row(set, s, u);
  const int64_t n_units = int64_t{stage.n_units[0]} + stage.n_units[1] + stage.n_units[2];
  return double(stage.norm_base) * double(norm_grid()[row.at[4 * n_units * row.lanes + group * row.lanes + row.lane]]);
}

}  // namespace vestige::ref
