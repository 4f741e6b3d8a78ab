// A float32 product of a tile of vectors with all unit anchors finds what can be the best; float64 decides among those,
// in the sums and the order of ref. So the bits are ref's, whatever the BLAS or the CPU rounds.

#include "backend/ops/nearest_anchor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/sgemm.h"
#include "backend/cpu/tiles.h"
#include "base/thread_pool.h"

namespace vestige::cpu {

namespace {

constexpr int64_t kTile = 64;     // vectors of one product
constexpr int64_t kPanel = 1024;  // anchors of one product

struct Work {
  const NearestAnchorParams* p = nullptr;
  std::vector<double> norm;     // [k]
  const float* unit = nullptr;  // [k, d]: anchors / norm
};

void finish(const Work& w, int64_t i, double x_norm, const BestAnchor& best) {
  const double norm = w.norm[static_cast<size_t>(best.index)];
  const NearestAnchorParams& p = *w.p;
  p.index.as<int32_t>()[i] = static_cast<int32_t>(best.index);
  p.gamma.as<float>()[i] = best.score > 0 ? static_cast<float>(best.product / norm / norm) : 0.0f;
  if (p.cosine.data != nullptr)
    p.cosine.as<float>()[i] = best.score > 0 ? static_cast<float>(best.score / x_norm) : 0.0f;
}

/// @param score [k]: float32 products of the unit vector with the unit anchors
void decide(const Work& w, int64_t i, const float* score) {
  const NearestAnchorParams& p = *w.p;
  const int64_t k = p.anchors.dim(0), d = p.x.dim(1);
  const double x_norm = std::sqrt(row_product(p.x, i, p.x, i));
  BestAnchor best;
  if (std::isfinite(x_norm) && x_norm > 0) {
    float top = 0;
    for (int64_t a = 0; a < k; ++a) top = std::max(top, std::fabs(score[a]));
    // A product of d terms of unit vectors is off by less than (d + 2) 2^-23, theirs by rounding included.
    const float least = top - 2 * static_cast<float>(d + 2) * 0x1p-23f;
    for (int64_t a = 0; a < k; ++a) {
      if (std::fabs(score[a]) < least) continue;
      best.offer(a, row_product(p.x, i, p.anchors, a), w.norm[static_cast<size_t>(a)]);
    }
  }
  finish(w, i, x_norm, best);
}

/// Rows of a view over their norms, as float32; a row that is zero or not finite becomes zero.
void unit_rows(const ConstTensorView& x, int64_t first, int64_t n, float* out, double* norms) {
  const int64_t d = x.dim(1);
  for (int64_t i = 0; i < n; ++i) {
    const double norm = std::sqrt(row_product(x, first + i, x, first + i));
    const bool usable = norm > 0 && std::isfinite(norm);
    for (int64_t c = 0; c < d; ++c) {
      const double value = static_cast<double>(load_number(x.data, x.dtype, (first + i) * x.stride[0] + c));
      out[i * d + c] = usable ? static_cast<float>(value / norm) : 0.0f;
    }
    if (norms != nullptr) norms[i] = norm;
  }
}

}  // namespace

Status nearest_anchor(const NearestAnchorParams& p, Stream& stream) {
  const int64_t n = p.x.dim(0), d = p.x.dim(1), k = p.anchors.dim(0);
  const int64_t n_threads = stream.pool()->n_threads(), share = line_floats(kTile * d) + line_floats(kTile * k);
  VESTIGE_ASSIGN(float* const memory, scratch_floats(ScratchSlot::kOp, line_floats(k * d) + n_threads * share));
  Slices slices(memory);
  float* const unit = slices.take(k * d);
  Work w;
  w.p = &p;
  w.norm.resize(static_cast<size_t>(k));
  unit_rows(p.anchors, 0, k, unit, w.norm.data());
  float* const shares = slices.take(0);
  stream.pool()->run(ceil_div(n, kTile), [&](int64_t tile, int32_t thread) {
    float* const x = shares + thread * share;
    float* const score = x + line_floats(kTile * d);
    const int64_t first = tile * kTile, count = std::min(kTile, n - first);
    unit_rows(p.x, first, count, x, nullptr);
    for (int64_t begin = 0; begin < k; begin += kPanel) {
      sgemm({.m = count,
             .n = std::min(kPanel, k - begin),
             .k = d,
             .a = {x, d},
             .b = {unit + begin * d, d, true},
             .out = score + begin,
             .out_stride = k});
    }
    for (int64_t i = 0; i < count; ++i) decide(w, first + i, score + i * k);
  });
  return {};
}

}  // namespace vestige::cpu
