#include "eval/fidelity.h"

#include <algorithm>
#include <cmath>

#include "eval/attend_row.h"
#include "eval/lost_rows.h"

namespace vestige::eval {

namespace {

constexpr double kRounding = 1e-5;  // of float32 sums; certificates speak of exact arithmetic

double norm(const float* x, const float* y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += std::pow(static_cast<double>(x[i]) - (y == nullptr ? 0.0 : static_cast<double>(y[i])), 2);
  return std::sqrt(sum);
}

double largest_content(const WideRows& rows, int64_t d) {
  double most = 0;
  for (size_t at = 0; at < rows.content.size(); at += static_cast<size_t>(d)) {
    most = std::max(most, norm(rows.content.data() + at, nullptr, d));
  }
  return most;
}

struct Tally {
  double error = 0, error_most = 0, omitted = 0, omitted_most = 0;
  double omitted_bound = 0, error_bound = 0;
  int64_t n = 0, n_layer_steps = 0, n_broken = 0;
};

/// One step of one layer. Where codes stand in for rows nothing is omitted, and the error bound is what must hold.
void compare(const AttendedRow& got, const AttendedRow& want, int64_t d, double longest_row, Tally* tally) {
  bool broken = false;
  for (size_t h = 0; h < want.lse.size(); ++h) {
    const float* exact = want.out.data() + static_cast<int64_t>(h) * d;
    const double distance = norm(got.out.data() + static_cast<int64_t>(h) * d, exact, d);
    const double error = distance / std::max(norm(exact, nullptr, d), 1e-30);
    const double omitted =
        got.record.n_coded > 0
            ? 0
            : std::max(0.0, 1 - std::exp(static_cast<double>(got.lse[h]) - static_cast<double>(want.lse[h])));
    ++tally->n;
    tally->error += error;
    tally->error_most = std::max(tally->error_most, error);
    tally->omitted += omitted;
    tally->omitted_most = std::max(tally->omitted_most, omitted);
    broken = broken || omitted > got.record.omitted_max + kRounding;
    if (got.record.n_coded > 0) broken = broken || distance > (got.record.error_max + kRounding) * longest_row;
  }
  ++tally->n_layer_steps;
  tally->n_broken += broken ? 1 : 0;
  tally->omitted_bound = std::max(tally->omitted_bound, got.record.omitted_max);
  tally->error_bound = std::max(tally->error_bound, got.record.error_max);
}

}  // namespace

Result<Numbers> measure_fidelity(Context& arm, Context& full, const Reading& reading, Stream& stream) {
  Tally tally;
  LostRows lost;
  for (size_t i = 0; i < reading.layers.size(); ++i) {
    const Reading::Layer& layer = reading.layers[i];
    const RowLayout& layout = layer.cache->layout();
    const int64_t h = layer.cache->h_q(), d_row = layout.d_row();
    const WideRows rows = widen_rows(*layer.cache);
    const double longest = largest_content(rows, layout.d_content);
    for (int64_t t = 0; t < reading.n_queries; ++t) {
      const int64_t u = layer.cache->n_rows() - reading.n_queries + t;
      const ConstTensorView q(layer.queries.data() + t * h * d_row, DType::kF32, {1, h, d_row});
      VESTIGE_ASSIGN(const AttendedRow want, attend_row(*full.caches()[i], rows, u, q, stream));
      VESTIGE_ASSIGN(const AttendedRow got, attend_row(*arm.caches()[i], rows, u, q, stream));
      compare(got, want, layout.d_content, longest, &tally);
      VESTIGE_TRY(count_lost(*arm.caches()[i], full.caches()[i]->pages(), q, got.record.n_coded > 0, &lost, stream));
    }
  }
  const auto n = static_cast<double>(std::max<int64_t>(tally.n, 1));
  return Numbers{{"relative output error, mean", tally.error / n},
                 {"relative output error, most", tally.error_most},
                 {"omitted mass, mean", tally.omitted / n},
                 {"omitted mass, most", tally.omitted_most},
                 {"certified omitted mass, most", tally.omitted_bound},
                 {"certified output error, most", tally.error_bound},
                 {"best archived rows over the threshold", static_cast<double>(lost.n_due)},
                 {"best archived rows over the threshold, lost", static_cast<double>(lost.n_lost)},
                 {"layer-steps", static_cast<double>(tally.n_layer_steps)},
                 {"layer-steps that break their certificate", static_cast<double>(tally.n_broken)}};
}

}  // namespace vestige::eval
