#include "eval/fidelity.h"

#include <algorithm>
#include <cmath>

#include "eval/lost_rows.h"

namespace vestige::eval {

namespace {

constexpr double kRounding = 1e-5;  // of float32 sums; certificates speak of exact arithmetic

struct Attended {
  std::vector<float> out, lse;
  StepRecord record;
};

Result<Attended> attend(LayerCache& cache, const ConstTensorView& row, const ConstTensorView& q, Stream& stream) {
  const int64_t h = cache.h_q(), d = cache.layout().d_content;
  Attended a;
  a.out.resize(static_cast<size_t>(h * d));
  a.lse.resize(static_cast<size_t>(h));
  VESTIGE_TRY(cache.append(row, stream));
  VESTIGE_TRY(cache.attend(q, TensorView(a.out.data(), DType::kF32, {1, h, d}),
                           TensorView(a.lse.data(), DType::kF32, {1, h}), &a.record, stream));
  VESTIGE_TRY(stream.synchronize());
  return a;
}

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
void compare(const Attended& got, const Attended& want, int64_t d, double longest_row, Tally* tally) {
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
      std::vector<float> row(rows.content.begin() + u * layout.d_content,
                             rows.content.begin() + (u + 1) * layout.d_content);
      row.insert(row.end(), rows.branch.begin() + u * layout.d_branch, rows.branch.begin() + (u + 1) * layout.d_branch);
      const ConstTensorView row_view(row.data(), DType::kF32, {1, d_row});
      const ConstTensorView q(layer.queries.data() + t * h * d_row, DType::kF32, {1, h, d_row});
      VESTIGE_ASSIGN(const Attended want, attend(*full.caches()[i], row_view, q, stream));
      VESTIGE_ASSIGN(const Attended got, attend(*arm.caches()[i], row_view, q, stream));
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
