// How far a code's bound must reach for each calibration query (vestigekv.md, section 5).

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/ops/code_entries.h"
#include "backend/ops/norm_grid.h"
#include "base/thread_pool.h"
#include "cache/policies/vestige/best_archived.h"
#include "cache/policies/vestige/row_codec.h"

namespace vestige {

namespace {

constexpr float kNoSample = std::numeric_limits<float>::quiet_NaN();

double coded_score(const CodeStage& stage, const std::vector<EntryPlace>& places, const CodeRow& row,
                   const float* dual) {
  double sum = 0;
  for (size_t e = 0; e < places.size(); ++e) {
    const int32_t coord = stage.coord.as<int32_t>()[e];
    if (coord < 0) continue;
    const EntryPlace& p = places[e];
    sum += double(dual[coord]) * double(stage.weight.as<float>()[e]) *
           (double(row.piece(p)) - double(entry_middle(p.width)));
  }
  return sum;
}

double square(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t k = 0; k < n; ++k) sum += double(x[k]) * double(x[k]);
  return sum;
}

}  // namespace

Result<std::vector<std::vector<float>>> RowCodec::needed_z(const CodecQueries& c, Stream& stream) const {
  const int64_t heads = c.queries.dim(1), n = c.queries.dim(0) * heads, per_group = heads / state_.n_groups;
  const ConstTensorView q = ConstTensorView(c.queries.data, DType::kF32, {n, d()});
  VESTIGE_ASSIGN(const BestArchived best, best_archived(c, stream));
  const RowTransform t = transform_view(state_);
  std::vector<float> dual(static_cast<size_t>(n * d())), white(static_cast<size_t>(n * state_.rank));
  VESTIGE_TRY(ops::matmul({.x = q, .w = t.dual, .out = TensorView(dual.data(), DType::kF32, {n, d()})}, stream));
  const ConstTensorView duals(dual.data(), DType::kF32, {c.queries.dim(0), heads, d()});
  for (int64_t head = 0; head < heads; ++head) {
    ConstTensorView x(duals.as<float>() + head * d(), DType::kF32, {c.queries.dim(0), d()});
    TensorView out(white.data() + head * state_.rank, DType::kF32, {c.queries.dim(0), state_.rank});
    x.stride[0] = heads * d();
    out.stride[0] = heads * state_.rank;
    const ConstTensorView w(t.white.as<float>() + head / per_group * state_.rank * d(), DType::kF32,
                            {state_.rank, d()});
    VESTIGE_TRY(ops::matmul({.x = x, .w = w, .out = out}, stream));
  }
  VESTIGE_TRY(stream.synchronize());
  const std::vector<CodeStage> coded = stages(state_);
  std::vector<std::vector<EntryPlace>> places(coded.size());
  for (size_t s = 0; s < coded.size(); ++s) {
    for (int32_t e = 0; e < coded[s].n_entries(); ++e) places[s].emplace_back(coded[s], e);
  }
  std::vector<std::vector<float>> samples(coded.size(), std::vector<float>(static_cast<size_t>(n), kNoSample));
  stream.pool()->run(n, [&](int64_t i, int32_t) {
    const auto k = static_cast<size_t>(i);
    if (best.row[k] < 0) return;
    const int64_t group = i % heads / per_group;
    const auto page = static_cast<size_t>(best.row[k] / block_rows_);
    const float *query = q.as<float>() + i * d(), *own = dual.data() + i * d();
    double score = 0;
    for (int64_t j = 0; j < d(); ++j) score += double(query[j]) * double(t.mean.as<float>()[j]);
    const double inside = square(own, d()) * (1 + kWhiteRounding) - square(white.data() + i * state_.rank, state_.rank);
    const double norm = std::sqrt(std::max(0.0, inside) / double(t.ridge.as<float>()[group]));
    for (size_t s = 0; s < coded.size(); ++s) {
      const CodeRow row(coded[s], s, state_.codes[s][page], best.row[k] % block_rows_, state_.n_groups);
      score += coded_score(coded[s], places[s], row, own);
      const double reach =
          double(c.scale) * norm * double(coded[s].norm_base) * double(norm_grid()[row.norm(coded[s], group)]);
      if (reach == 0) continue;
      const auto z = static_cast<float>((double(best.target[k]) - double(c.scale) * score) / reach);
      // A sample that is not a number must not lower z.
      samples[s][k] = std::isnan(z) ? std::numeric_limits<float>::infinity() : z;
    }
  });
  for (std::vector<float>& stage : samples) std::erase_if(stage, [](float z) { return std::isnan(z); });
  return samples;
}

}  // namespace vestige
