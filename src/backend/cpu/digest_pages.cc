#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/row_tile.h"
#include "backend/cpu/tiles.h"
#include "backend/ops/pick_pages.h"
#include "backend/ops/row_access.h"
#include "base/thread_pool.h"

namespace vestige::cpu {

namespace {

/// One thread's memory.
struct Work {
  float* row;    // [d]
  float* upper;  // [d]: also the centre
  float* lower;  // [d]
  double* sum;   // [d]
};

void load(const DigestPagesParams& p, int64_t u, float* row) {
  const RowLayout& l = p.rows.layout;
  widen_numbers(content_row(p.rows, u), l.dtype, l.d_content, row);
  std::fill_n(row, l.scored_begin(), 0.0f);
  if (l.d_branch > 0) widen_numbers(branch_row(p.rows, u), l.dtype, l.d_branch, row + l.d_content);
}

/// Stores [d] numbers of a page and reads them back as stored.
void store(const TensorView& out, int64_t page, float* x) {
  const int64_t d = out.dim(1);
  if (out.dtype == DType::kF32) {
    std::copy_n(x, d, out.as<float>() + page * d);
    return;
  }
  uint16_t* to = out.as<uint16_t>() + page * d;
  for (int64_t k = 0; k < d; ++k) {
    to[k] = f32_to_bf16(x[k]);
    x[k] = bf16_to_f32(to[k]);
  }
}

float box(const DigestPagesParams& p, int64_t page, const Work& w) {
  const int64_t first = p.first_row + page * p.page_rows, d = p.rows.layout.d_row();
  bool finite = true;
  for (int64_t i = 0; i < p.page_rows; ++i) {
    load(p, first + i, w.row);
    if (i == 0) {
      std::copy_n(w.row, d, w.upper);
      std::copy_n(w.row, d, w.lower);
    }
    for (int64_t k = 0; k < d; ++k) {
      finite = finite && std::isfinite(w.row[k]);
      w.upper[k] = std::max(w.upper[k], w.row[k]);
      w.lower[k] = std::min(w.lower[k], w.row[k]);
    }
  }
  double square = 0;
  for (int64_t k = 0; k < d; ++k) {
    const auto reach = static_cast<double>(std::max(std::abs(w.upper[k]), std::abs(w.lower[k])));
    square += reach * reach;
  }
  store(p.upper, page, w.upper);
  store(p.lower, page, w.lower);
  return finite ? covering_radius(0, std::sqrt(square), d) : std::numeric_limits<float>::infinity();
}

float sphere(const DigestPagesParams& p, int64_t page, const Work& w) {
  const int64_t first = p.first_row + page * p.page_rows, d = p.rows.layout.d_row();
  std::fill_n(w.sum, d, 0.0);
  for (int64_t i = 0; i < p.page_rows; ++i) {
    load(p, first + i, w.row);
    for (int64_t k = 0; k < d; ++k) w.sum[k] += static_cast<double>(w.row[k]);
  }
  double square = 0;
  for (int64_t k = 0; k < d; ++k) w.upper[k] = static_cast<float>(w.sum[k] / static_cast<double>(p.page_rows));
  store(p.upper, page, w.upper);
  for (int64_t k = 0; k < d; ++k) square += static_cast<double>(w.upper[k]) * static_cast<double>(w.upper[k]);
  double most = 0, mean = 0;
  bool finite = std::isfinite(square);
  for (int64_t i = 0; i < p.page_rows; ++i) {
    load(p, first + i, w.row);
    double distance = 0;
    for (int64_t k = 0; k < d; ++k) {
      const double left = static_cast<double>(w.row[k]) - static_cast<double>(w.upper[k]);
      distance += left * left;
    }
    finite = finite && std::isfinite(distance);
    most = std::max(most, std::sqrt(distance));
    mean += std::sqrt(distance) / static_cast<double>(p.page_rows);
  }
  if (!finite) return std::numeric_limits<float>::infinity();
  return p.digest == PageDigest::kSphere ? covering_radius(most, std::sqrt(square), d) : static_cast<float>(mean);
}

}  // namespace

Status digest_pages(const DigestPagesParams& p, Stream& stream) {
  const int64_t line = line_floats(p.rows.layout.d_row());
  VESTIGE_ASSIGN(float* const memory, scratch_floats(ScratchSlot::kOp, stream.n_threads() * 5 * line));
  stream.pool()->run(p.upper.dim(0), [&](int64_t page, int32_t thread) {
    float* own = memory + thread * 5 * line;
    const Work w = {own, own + line, own + 2 * line, reinterpret_cast<double*>(own + 3 * line)};
    p.radius.as<float>()[page] = p.digest == PageDigest::kBox ? box(p, page, w) : sphere(p, page, w);
  });
  return {};
}

}  // namespace vestige::cpu
