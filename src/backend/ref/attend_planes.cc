#include <cmath>
#include <limits>
#include <vector>

#include "backend/ops/plane_code.h"
#include "backend/ref/ref_ops.h"
#include "backend/ref/turn_to_position.h"

namespace vestige::ref {

namespace {

using Vector = std::vector<double>;

}  // namespace

Status attend_planes(const AttendPlanesParams& p, Stream&) {
  const int64_t m = p.q.dim(0), d = p.q.dim(1);
  const PlaneLayout layout(p.rows);
  std::vector<Vector> scores(static_cast<size_t>(m)), values;
  for (int64_t run = 0; run < p.rows.run_start.dim(0); ++run) {
    for_run(p.rows, layout, run, [&](int64_t t, int64_t c, int64_t begin) {
      const uint8_t* row = p.rows.codes.as<uint8_t>() + begin;
      int64_t at = 0;
      Vector key = read_plane_row(p.rows.key, c, row, &at);
      values.push_back(read_plane_row(p.rows.value, c, row, &at));
      turn_to_position(p.frequencies, p.interleaved, p.first_position + t, &key);
      for (int64_t i = 0; i < m; ++i) {
        const float* q = p.q.as<float>() + i * p.q.stride[0];
        double sum = 0;
        for (int64_t j = 0; j < d; ++j) sum += static_cast<double>(q[j]) * key[static_cast<size_t>(j)];
        scores[static_cast<size_t>(i)].push_back(sum * static_cast<double>(p.scale));
      }
    });
  }
  for (int64_t i = 0; i < m; ++i) {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (double s : scores[static_cast<size_t>(i)]) top = std::max(top, s);
    Vector out(static_cast<size_t>(d), 0.0);
    for (size_t t = 0; t < values.size(); ++t) {
      const double weight = std::exp(scores[static_cast<size_t>(i)][t] - top);
      sum += weight;
      for (size_t j = 0; j < out.size(); ++j) out[j] += weight * values[t][j];
    }
    float* row = p.out.as<float>() + i * p.out.stride[0];
    for (int64_t j = 0; j < d; ++j) {
      row[j] = values.empty() ? 0.0f : static_cast<float>(out[static_cast<size_t>(j)] / sum);
    }
    p.lse.as<float>()[i] = static_cast<float>(values.empty() ? top : top + std::log(sum));
  }
  return {};
}

}  // namespace vestige::ref
