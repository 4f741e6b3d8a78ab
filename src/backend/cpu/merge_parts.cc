#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/scratch.h"
#include "base/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/merge_parts.cc"
#include "hwy/foreach_target.h"
// After foreach_target: compiled once a target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Weight of each part of row i into weight[n_parts], 0 = leave it out. @return log sum exp.
float weigh_parts(const MergePartsParams& p, int64_t i, float* weight) {
  const float inf = std::numeric_limits<float>::infinity();
  const int64_t n_parts = p.part.dim(0);
  float max = -inf, sum = 0;
  for (int64_t k = 0; k < n_parts; ++k) {
    weight[k] = p.lse.as<float>()[k * p.lse.stride[0] + i];
    max = std::max(max, weight[k]);
  }
  for (int64_t k = 0; k < n_parts; ++k) {
    // Equal first: infinity minus infinity is no number. A NaN passes through exp.
    weight[k] = weight[k] == -inf ? 0.0f : weight[k] == max ? 1.0f : std::exp(weight[k] - max);
    sum += weight[k];
  }
  for (int64_t k = 0; k < n_parts && sum != 0; ++k) weight[k] /= sum;
  return max + std::log(sum);
}

/// Elements are done one after the other over all parts, so that out may be part 0.
HWY_NOINLINE void merge_row(const MergePartsParams& p, int64_t i, float* weight) {
  const int64_t n_parts = p.part.dim(0), d_part = p.part.dim(3);
  const float lse = weigh_parts(p, i, weight);
  if (!p.lse_out.empty()) p.lse_out.as<float>()[i] = lse;
  const float* part = p.part.as<float>() + i * d_part;
  float* out = p.out.as<float>() + i * d_part;
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + lanes <= d_part; j += lanes) {
    auto acc = hn::Zero(d);
    for (int64_t k = 0; k < n_parts; ++k) {
      if (weight[k] == 0.0f) continue;
      acc = hn::MulAdd(hn::Set(d, weight[k]), hn::LoadU(d, part + k * p.part.stride[0] + j), acc);
    }
    hn::StoreU(acc, d, out + j);
  }
  for (; j < d_part; ++j) {
    float acc = 0;
    for (int64_t k = 0; k < n_parts; ++k) {
      if (weight[k] != 0.0f) acc += weight[k] * part[k * p.part.stride[0] + j];
    }
    out[j] = acc;
  }
}

Status merge(const MergePartsParams& p, Stream& stream) {
  const int64_t n_parts = p.part.dim(0), n_rows = p.part.dim(1) * p.part.dim(2);
  VESTIGE_ASSIGN(float* const weights, scratch_floats(ScratchSlot::kOp, n_rows * n_parts));
  // About 32 KB of parts a piece: a decode step's kept and tail rows wake no worker.
  const int64_t rows = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, n_parts * p.part.dim(3)));
  stream.pool()->run((n_rows + rows - 1) / rows, [&](int64_t piece, int32_t) {
    for (int64_t i = piece * rows; i < std::min(n_rows, (piece + 1) * rows); ++i) {
      merge_row(p, i, weights + i * n_parts);
    }
  });
  return {};
}

}  // namespace
}  // namespace vestige::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(merge);

Status merge_parts(const MergePartsParams& p, Stream& stream) { return HWY_DYNAMIC_DISPATCH(merge)(p, stream); }

}  // namespace vestige::cpu
#endif  // HWY_ONCE
