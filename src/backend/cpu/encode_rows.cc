#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/sgemm.h"
#include "backend/cpu/tiles.h"
#include "backend/ops/code_entries.h"
#include "backend/ops/norm_grid.h"
#include "base/load_number.h"
#include "base/thread_pool.h"

namespace vestige::cpu {

namespace {

constexpr int64_t kRun = 128;  // rows of one task, whole tiles
constexpr int64_t kTile = CodeStage::kTileRows;
// Covers the rounding of the float32 products behind a norm.
constexpr double kNormMargin = 1.002;

struct Entry {
  int32_t coord, shift;
  EntryPlace place;
};

/// What one task works in.
struct Work {
  float *x, *t, *projected, *value;  // [kRun, d], [kRun, d], [kRun, n_groups * rank], [kRun, d_content]
  int32_t* codes;                    // [d]
};

/// Codes row `row` of the run, which lies in w.t, and leaves there what the code does not hold.
void encode_row(const EncodeRowsParams& p, size_t s, const std::vector<Entry>& entries, int64_t first, int64_t row,
                const Work& w) {
  const CodeStage& stage = p.stages[s];
  const int64_t d = p.transform.mean.dim(0), row_bytes = stage.row_bytes(p.transform.metric.dim(0));
  float* t = w.t + row * d;
  const auto* bits = stage.bits.as<int32_t>();
  const auto* step = stage.step.as<float>();
  for (int64_t j = 0; j < d; ++j) {
    if (bits[j] == 0) continue;
    float value = 0;
    w.codes[j] = code_of(t[j], bits[j], step[j], &value);
    t[j] -= value;
  }
  const int64_t u = first + row, lane = s == 0 ? u % kTile : 0, lanes = s == 0 ? kTile : 1;
  auto* words = reinterpret_cast<uint32_t*>(p.codes[s].as<uint8_t>() + (u - lane) * row_bytes);
  for (const Entry& e : entries) {
    words[e.place.unit * lanes + lane] |= entry_bits(w.codes[e.coord], e.shift, e.place);
  }
}

double sum_of_squares(const float* x, int64_t n) {
  double sums[4] = {};
  int64_t k = 0;
  for (; k + 4 <= n; k += 4) {
    for (int i = 0; i < 4; ++i) sums[i] += double(x[k + i]) * double(x[k + i]);
  }
  for (; k < n; ++k) sums[0] += double(x[k]) * double(x[k]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void write_norms(const EncodeRowsParams& p, size_t s, int64_t first, int64_t n, const Work& w) {
  const CodeStage& stage = p.stages[s];
  const int64_t d = p.transform.mean.dim(0), n_groups = p.transform.metric.dim(0), rank = p.transform.metric.dim(1);
  const int64_t n_units = stage.units(), row_bytes = stage.row_bytes(n_groups);
  sgemm({.m = kRun,
         .n = n_groups * rank,
         .k = d,
         .a = {w.t, d},
         .b = {p.transform.metric.as<float>(), d, true},
         .out = w.projected,
         .out_stride = n_groups * rank});
  for (int64_t row = 0; row < n; ++row) {
    const int64_t u = first + row, lane = s == 0 ? u % kTile : 0, lanes = s == 0 ? kTile : 1;
    uint8_t* norms = p.codes[s].as<uint8_t>() + (u - lane) * row_bytes + 4 * n_units * lanes;
    const double all = sum_of_squares(w.t + row * d, d);
    for (int64_t g = 0; g < n_groups; ++g) {
      const double square = sum_of_squares(w.projected + (row * n_groups + g) * rank, rank);
      const double norm = std::sqrt(square + all * double(p.transform.ridge.as<float>()[g]));
      norms[g * lanes + lane] = norm_byte(norm * kNormMargin, stage.norm_base);
    }
  }
}

void write_value_norms(const EncodeRowsParams& p, int64_t first, int64_t n, const Work& w) {
  const int64_t d = p.transform.mean.dim(0), d_content = p.content.dim(1);
  sgemm({.m = kRun,
         .n = d_content,
         .k = d,
         .a = {w.t, d},
         .b = {p.transform.dual.as<float>(), d},
         .out = w.value,
         .out_stride = d_content});
  for (int64_t row = 0; row < n; ++row) {
    const double norm = std::sqrt(sum_of_squares(w.value + row * d_content, d_content));
    p.value_norm.as<uint8_t>()[first + row] = norm_byte(norm * kNormMargin, p.value_base);
  }
}

/// Rows of the run as float32, centred, and their largest norms in `most`. Rows past n are zero.
void load_rows(const EncodeRowsParams& p, int64_t first, int64_t n, const Work& w, float* most) {
  const int64_t d = p.transform.mean.dim(0), d_content = p.content.dim(1);
  std::fill(w.x + n * d, w.x + kRun * d, 0.0f);
  double squares[2] = {};
  for (int64_t row = 0; row < n; ++row) {
    float* x = w.x + row * d;
    for (int64_t k = 0; k < d_content; ++k) {
      x[k] = load_number(p.content.data, p.content.dtype, (first + row) * p.content.stride[0] + k);
    }
    for (int64_t k = d_content; k < d; ++k) {
      x[k] = load_number(p.branch.data, p.branch.dtype, (first + row) * p.branch.stride[0] + k - d_content);
    }
    const double content = sum_of_squares(x, d_content);
    const double square[2] = {content + sum_of_squares(x + d_content, d - d_content), content};
    for (int i = 0; i < 2; ++i) {
      if (!(square[i] <= squares[i])) squares[i] = std::isnan(square[i]) ? INFINITY : square[i];
    }
    for (int64_t k = 0; k < d; ++k) x[k] -= p.transform.mean.as<float>()[k];
  }
  for (int i = 0; i < 2; ++i) most[i] = static_cast<float>(std::sqrt(squares[i]) * 1.0001);
}

std::vector<Entry> entries_of(const CodeStage& stage) {
  std::vector<Entry> entries;
  for (int32_t e = 0; e < stage.n_entries(); ++e) {
    const int32_t coord = stage.coord.as<int32_t>()[e];
    if (coord >= 0) entries.push_back({coord, stage.shift.as<int32_t>()[e], EntryPlace(stage, e)});
  }
  return entries;
}

}  // namespace

Status encode_rows(const EncodeRowsParams& p, Stream& stream) {
  const int64_t n = p.content.dim(0), d_content = p.content.dim(1), d = p.transform.mean.dim(0);
  const int64_t n_projected = p.transform.metric.dim(0) * p.transform.metric.dim(1), n_runs = ceil_div(n, kRun);
  std::vector<std::vector<Entry>> entries;
  for (size_t s = 0; s < p.stages.size(); ++s) {
    entries.push_back(entries_of(p.stages[s]));
    std::fill_n(p.codes[s].as<uint8_t>(), p.codes[s].n_elements(), uint8_t{0});
  }
  const int64_t sizes[] = {kRun * d, kRun * d, kRun * n_projected, kRun * d_content, d};
  int64_t each = 0;
  for (const int64_t size : sizes) each += line_floats(size);
  VESTIGE_ASSIGN(float* const memory,
                 scratch_floats(ScratchSlot::kOp, each * stream.n_threads() + line_floats(2 * n_runs)));
  float* const most = memory + each * stream.n_threads();
  stream.pool()->run(n_runs, [&](int64_t run, int32_t thread) {
    Slices slices(memory + each * thread);
    Work w = {};
    w.x = slices.take(sizes[0]);
    w.t = slices.take(sizes[1]);
    w.projected = slices.take(sizes[2]);
    w.value = slices.take(sizes[3]);
    w.codes = reinterpret_cast<int32_t*>(slices.take(sizes[4]));
    const int64_t first = run * kRun, count = std::min(kRun, n - first);
    load_rows(p, first, count, w, most + 2 * run);
    sgemm({.m = kRun,
           .n = d,
           .k = d,
           .a = {w.x, d},
           .b = {p.transform.forward.as<float>(), d, true},
           .out = w.t,
           .out_stride = d});
    for (size_t s = 0; s < p.stages.size(); ++s) {
      for (int64_t row = 0; row < count; ++row) encode_row(p, s, entries[s], first, row, w);
      write_norms(p, s, first, count, w);
      if (s == 0 && !p.value_norm.empty()) write_value_norms(p, first, count, w);
    }
  });
  for (int64_t i = 0; i < 2; ++i) {
    float& out = p.max_norm.as<float>()[i];
    out = 0;
    for (int64_t run = 0; run < n_runs; ++run) out = std::max(out, most[2 * run + i]);
  }
  return {};
}

}  // namespace vestige::cpu
