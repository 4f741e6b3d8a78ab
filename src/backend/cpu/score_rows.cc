#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/sgemm.h"
#include "backend/cpu/tiles.h"
#include "backend/ops/row_access.h"
#include "base/thread_pool.h"

namespace vestige::cpu {

namespace {

constexpr int64_t kRunRows = 512;

/// Sizes and memory of one call.
struct Work {
  const ScoreRowsParams* p = nullptr;
  int64_t n = 0, d = 0, n_columns = 0;
  std::vector<float> cosine, sine;  // [n]: orthonormal cos and sin of 2 pi i / n
  float* table = nullptr;           // [n, n_columns]: the columns that span the low-pass
  float* rows = nullptr;            // [n, d]: the branch widened, then its residual
  float* parts = nullptr;           // [runs, n_columns, d]: projections of the runs, then their sum in the first
};

void run_bounds(const Work& w, int64_t run, int64_t& begin, int64_t& count) {
  begin = run * kRunRows;
  count = std::min(kRunRows, w.n - begin);
}

void project(const Work& w, int64_t run) {
  int64_t begin = 0, count = 0;
  run_bounds(w, run, begin, count);
  for (int64_t u = begin; u < begin + count; ++u) {
    float* column = w.table + u * w.n_columns;
    column[0] = static_cast<float>(1.0 / std::sqrt(static_cast<double>(w.n)));
    for (int64_t j = 1; 2 * j < w.n_columns; ++j) {
      column[2 * j - 1] = w.cosine[static_cast<size_t>(j * u % w.n)];
      column[2 * j] = w.sine[static_cast<size_t>(j * u % w.n)];
    }
    const ConstTensorView& branch = w.p->branch;
    for (int64_t k = 0; k < w.d; ++k) {
      w.rows[u * w.d + k] = load_number(branch.data, branch.dtype, u * branch.stride[0] + k);
    }
  }
  sgemm({.m = w.n_columns,
         .n = w.d,
         .k = count,
         .a = {w.table + begin * w.n_columns, w.n_columns, true},
         .b = {w.rows + begin * w.d, w.d},
         .out = w.parts + run * w.n_columns * w.d,
         .out_stride = w.d});
}

void measure(const Work& w, int64_t run) {
  int64_t begin = 0, count = 0;
  run_bounds(w, run, begin, count);
  sgemm({.m = count,
         .n = w.d,
         .k = w.n_columns,
         .a = {w.table + begin * w.n_columns, w.n_columns},
         .b = {w.parts, w.d},
         .out = w.rows + begin * w.d,
         .out_stride = w.d,
         .alpha = -1.0f,
         .beta = 1.0f});
  for (int64_t u = begin; u < begin + count; ++u) {
    float square = 0;
    for (int64_t k = 0; k < w.d; ++k) square += w.rows[u * w.d + k] * w.rows[u * w.d + k];
    w.p->score.as<float>()[u] = std::sqrt(square);
  }
}

/// cos and sin at every multiple of 2 pi / n: a column of any frequency is a walk through them.
void make_waves(Work& w) {
  const double norm = std::sqrt(2.0 / static_cast<double>(w.n));
  for (int64_t i = 0; i < w.n; ++i) {
    const double angle = 2.0 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(w.n);
    w.cosine.push_back(static_cast<float>(norm * std::cos(angle)));
    w.sine.push_back(static_cast<float>(norm * std::sin(angle)));
  }
}

}  // namespace

Status score_rows(const ScoreRowsParams& p, Stream& stream) {
  Work w;
  w.p = &p;
  w.n = p.branch.dim(0);
  w.d = p.branch.dim(1);
  w.n_columns = 2 * static_cast<int64_t>(p.bandwidth) - 1;
  const int64_t n_runs = ceil_div(w.n, kRunRows), part_size = w.n_columns * w.d;
  VESTIGE_ASSIGN(float* const memory,
                 scratch_floats(ScratchSlot::kOp, line_floats(w.n * w.n_columns) + line_floats(w.n * w.d) +
                                                      line_floats(n_runs * part_size)));
  Slices slices(memory);
  w.table = slices.take(w.n * w.n_columns);
  w.rows = slices.take(w.n * w.d);
  w.parts = slices.take(n_runs * part_size);
  make_waves(w);
  stream.pool()->run(n_runs, [&](int64_t run, int32_t) { project(w, run); });
  for (int64_t run = 1; run < n_runs; ++run) {
    for (int64_t i = 0; i < part_size; ++i) w.parts[i] += w.parts[run * part_size + i];
  }
  stream.pool()->run(n_runs, [&](int64_t run, int32_t) { measure(w, run); });
  return {};
}

}  // namespace vestige::cpu
