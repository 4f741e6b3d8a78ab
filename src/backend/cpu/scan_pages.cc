#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/tiles.h"
#include "backend/ops/pick_pages.h"
#include "base/thread_pool.h"

namespace vestige::cpu {

namespace {

/// The queries of one sequence as the digests meet them.
struct Queries {
  float* first;   // [h, d]: q, or max(q, 0) for boxes
  float* second;  // [h, d]: min(q, 0)
  float* length;  // [h]: || q ||, rounded up
};

void prepare(const float* q, int64_t h, int64_t d, bool boxes, const Queries& out) {
  for (int64_t i = 0; i < h * d; ++i) {
    out.first[i] = boxes && q[i] < 0 ? 0.0f : q[i];
    out.second[i] = boxes && q[i] < 0 ? q[i] : 0.0f;
  }
  for (int64_t head = 0; head < h; ++head) {
    double square = 0;
    for (int64_t k = 0; k < d; ++k)
      square += static_cast<double>(q[head * d + k]) * static_cast<double>(q[head * d + k]);
    out.length[head] = std::nextafter(static_cast<float>(std::sqrt(square)), std::numeric_limits<float>::infinity());
  }
}

}  // namespace

Status scan_pages(const ScanPagesParams& p, Stream& stream) {
  const int64_t h = p.q.dim(1), d = p.q.dim(2);
  int64_t most_pages = 0;
  for (const PageSet& set : p.sets) most_pages = std::max(most_pages, set.n_pages);
  const int64_t n_bounds = h * most_pages, n_pack = gemm_scratch_floats(d);
  VESTIGE_ASSIGN(float* const memory,
                 scratch_floats(ScratchSlot::kOp, 2 * line_floats(h * d) + line_floats(h) + line_floats(n_bounds) +
                                                      stream.n_threads() * n_pack));
  Slices slices(memory);
  const Queries queries = {slices.take(h * d), slices.take(h * d), slices.take(h)};
  float* const bounds = slices.take(n_bounds);
  float* const packs = slices.take(stream.n_threads() * n_pack);
  for (int64_t b = 0; b < p.q.dim(0); ++b) {
    const PageSet& set = p.sets[static_cast<size_t>(b)];
    prepare(p.q.as<float>() + b * h * d, h, d, set.lower != nullptr, queries);
    // Pieces of at most kGemmCols pages that do not cross a block.
    const int64_t pieces = set.n_pages == 0 ? 0 : ceil_div(set.block_pages, kGemmCols);
    const int64_t n_blocks = set.n_pages == 0 ? 0 : ceil_div(set.n_pages, set.block_pages);
    stream.pool()->run(n_blocks * pieces, [&](int64_t piece, int32_t thread) {
      const int64_t block = piece / pieces, begin = piece % pieces * kGemmCols;
      const int64_t end = std::min({begin + kGemmCols, set.block_pages, set.n_pages - block * set.block_pages});
      if (begin >= end) return;
      float* const out = bounds + block * set.block_pages + begin;
      const auto multiply = [&](const float* x, const void* const* side, bool accumulate) {
        gemm_slice({.x = x,
                    .x_stride = d,
                    .m = h,
                    .w = {side[block], set.dtype, set.block_pages, d, d},
                    .col_begin = begin,
                    .col_end = end,
                    .out = out,
                    .out_stride = set.n_pages,
                    .accumulate = accumulate,
                    .scratch = packs + thread * n_pack});
      };
      multiply(queries.first, set.upper, false);
      if (set.lower != nullptr) multiply(queries.second, set.lower, true);
      const float* radius = static_cast<const float*>(set.radius[block]) + begin;
      for (int64_t head = 0; head < h; ++head) {
        for (int64_t j = 0; j < end - begin; ++j) {
          float& bound = out[head * set.n_pages + j];
          bound = p.scale * (bound + queries.length[head] * radius[j]);
        }
      }
    });
    pick_pages(p, b, bounds);
  }
  return {};
}

}  // namespace vestige::cpu
