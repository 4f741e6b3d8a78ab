#include <cmath>
#include <vector>

#include "backend/ops/code_entries.h"
#include "backend/ops/norm_grid.h"
#include "backend/ref/load.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

namespace {

double metric_norm(const RowTransform& t, int64_t g, const std::vector<double>& e) {
  const auto d = static_cast<int64_t>(e.size());
  const int64_t rank = t.metric.dim(1);
  double square = 0;
  for (const double x : e) square += x * x * double(t.ridge.as<float>()[g]);
  for (int64_t r = 0; r < rank; ++r) {
    double sum = 0;
    const float* row = t.metric.as<float>() + (g * rank + r) * d;
    for (int64_t k = 0; k < d; ++k) sum += double(row[k]) * e[static_cast<size_t>(k)];
    square += sum * sum;
  }
  return std::sqrt(square);
}

/// Codes `e`, takes from it what the code stands for, and writes words and norms.
void encode_stage(const EncodeRowsParams& p, size_t s, int64_t row, std::vector<double>& e) {
  const CodeStage& stage = p.stages[s];
  const auto d = static_cast<int64_t>(e.size());
  std::vector<int32_t> codes(e.size());
  for (int64_t j = 0; j < d; ++j) {
    const auto k = static_cast<size_t>(j);
    if (stage.bits.as<int32_t>()[j] == 0) continue;
    float value = 0;
    codes[k] = code_of(static_cast<float>(e[k]), stage.bits.as<int32_t>()[j], stage.step.as<float>()[j], &value);
    e[k] -= double(value);
  }
  const int64_t n_units = stage.units(), n_groups = p.transform.metric.dim(0);
  std::vector<uint32_t> words(static_cast<size_t>(n_units));
  for (int32_t i = 0; i < stage.n_entries(); ++i) {
    const int32_t coord = stage.coord.as<int32_t>()[i];
    if (coord < 0) continue;
    const EntryPlace place(stage, i);
    words[static_cast<size_t>(place.unit)] |=
        entry_bits(codes[static_cast<size_t>(coord)], stage.shift.as<int32_t>()[i], place);
  }
  constexpr int64_t kTile = CodeStage::kTileRows;
  const int64_t row_bytes = stage.row_bytes(n_groups);
  auto* tile = p.codes[s].as<uint8_t>() + (s == 0 ? row / kTile * kTile * row_bytes : row * row_bytes);
  const int64_t lane = s == 0 ? row % kTile : 0, lanes = s == 0 ? kTile : 1;
  for (int64_t u = 0; u < n_units; ++u) {
    for (int64_t b = 0; b < 4; ++b) {
      tile[(u * lanes + lane) * 4 + b] = static_cast<uint8_t>(words[static_cast<size_t>(u)] >> (8 * b));
    }
  }
  for (int64_t g = 0; g < n_groups; ++g) {
    tile[4 * n_units * lanes + g * lanes + lane] = norm_byte(metric_norm(p.transform, g, e) * 1.002, stage.norm_base);
  }
}

}  // namespace

Status encode_rows(const EncodeRowsParams& p, Stream&) {
  const int64_t n = p.content.dim(0), d_content = p.content.dim(1), d = p.transform.mean.dim(0);
  for (size_t s = 0; s < p.stages.size(); ++s) {
    std::fill_n(p.codes[s].as<uint8_t>(), p.codes[s].n_elements(), uint8_t{0});
  }
  double most[2] = {};
  for (int64_t row = 0; row < n; ++row) {
    std::vector<double> x(static_cast<size_t>(d)), t(static_cast<size_t>(d));
    double square[2] = {};
    for (int64_t k = 0; k < d; ++k) {
      const ConstTensorView& part = k < d_content ? p.content : p.branch;
      const double value =
          double(load(part.data, part.dtype, row * part.stride[0] + (k < d_content ? k : k - d_content)));
      square[0] += value * value;
      if (k < d_content) square[1] += value * value;
      x[static_cast<size_t>(k)] = value - double(p.transform.mean.as<float>()[k]);
    }
    for (int i = 0; i < 2; ++i) most[i] = square[i] <= most[i] ? most[i] : square[i];
    for (int64_t j = 0; j < d; ++j) {
      for (int64_t k = 0; k < d; ++k) {
        t[static_cast<size_t>(j)] += double(p.transform.forward.as<float>()[j * d + k]) * x[static_cast<size_t>(k)];
      }
    }
    for (size_t s = 0; s < p.stages.size(); ++s) {
      encode_stage(p, s, row, t);
      if (s > 0 || p.value_norm.empty()) continue;
      double error = 0;
      for (int64_t c = 0; c < d_content; ++c) {
        double sum = 0;
        for (int64_t j = 0; j < d; ++j) {
          sum += double(p.transform.dual.as<float>()[j * d + c]) * t[static_cast<size_t>(j)];
        }
        error += sum * sum;
      }
      p.value_norm.as<uint8_t>()[row] = norm_byte(std::sqrt(error) * 1.002, p.value_base);
    }
  }
  for (int i = 0; i < 2; ++i) {
    p.max_norm.as<float>()[i] = std::isnan(most[i]) ? INFINITY : static_cast<float>(std::sqrt(most[i]) * 1.0001);
  }
  return {};
}

}  // namespace vestige::ref
