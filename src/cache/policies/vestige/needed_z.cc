#include "cache/policies/vestige/needed_z.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "base/thread_pool.h"
#include "vestige/device.h"

namespace vestige {

namespace {

constexpr float kNoSample = std::numeric_limits<float>::quiet_NaN();

float load(const void* data, int64_t i, DType dtype) {
  return dtype == DType::kF32 ? static_cast<const float*>(data)[i] : bf16_to_f32(static_cast<const uint16_t*>(data)[i]);
}

/// || q_c - V^T V q_c ||, from the unrounded projection.
double residual_norm(const float* q_c, const float* projected, const ConstTensorView& basis, std::vector<float>* left) {
  const int64_t d = basis.dim(1);
  left->assign(q_c, q_c + d);
  for (int64_t j = 0; j < basis.dim(0); ++j) {
    const float* v = basis.as<float>() + j * d;
    for (int64_t k = 0; k < d; ++k) (*left)[static_cast<size_t>(k)] -= projected[j] * v[k];
  }
  double sum = 0;
  for (float x : *left) sum += static_cast<double>(x) * x;
  return std::sqrt(sum);
}

float sample(const NeededZ& p, int64_t i, int64_t row, float true_score, const float* projected) {
  const RowLayout& layout = p.rows.layout;
  const int64_t rank = p.basis.dim(0);
  const float* q = p.queries.as<float>() + i * layout.d_row();
  const auto page = static_cast<size_t>(row / p.rows.page_rows);
  const int64_t at = row % p.rows.page_rows;
  std::vector<float> left;
  const double q_residual = rank == layout.d_content ? 0.0 : residual_norm(q, projected, p.basis, &left);
  const double row_residual = static_cast<const float*>(p.residual[page])[at];
  const double cert =
      rank == layout.d_content ? 0.0 : p.scale * q_residual * row_residual / std::sqrt(double(layout.d_content - rank));
  if (cert == 0) return kNoSample;
  double idx = 0;
  for (int64_t j = 0; j < layout.d_branch; ++j) {
    const float x = q[layout.d_content + j];
    const float stored = layout.dtype == DType::kF32 ? x : bf16_to_f32(f32_to_bf16(x));
    idx += static_cast<double>(stored) * load(p.rows.branch[page], at * p.rows.branch_stride + j, layout.dtype);
  }
  const auto* sketch = static_cast<const uint16_t*>(p.sketch[page]) + at * rank;
  for (int64_t j = 0; j < rank; ++j) {
    idx += static_cast<double>(f16_to_f32(f32_to_f16(projected[j]))) * f16_to_f32(sketch[j]);
  }
  const auto z = static_cast<float>((true_score - p.scale * idx) / cert);
  // A sample that is not a number must not lower z.
  return std::isnan(z) ? std::numeric_limits<float>::infinity() : z;
}

}  // namespace

Result<std::vector<float>> needed_z(const NeededZ& p, Stream& stream) {
  const int64_t n = p.queries.dim(0), rank = p.basis.dim(0), d = p.rows.layout.d_content;
  std::vector<float> best(static_cast<size_t>(n)), projected(static_cast<size_t>(n * rank));
  std::vector<int32_t> limit(static_cast<size_t>(n)), arg(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    limit[static_cast<size_t>(i)] = static_cast<int32_t>(std::min(p.rows.n_rows, p.first_position + i / p.heads + 1));
  }
  VESTIGE_TRY(ops::best_rows({.q = p.queries,
                              .rows = p.rows,
                              .limit = ConstTensorView(limit.data(), DType::kI32, {n}),
                              .mask = p.kept,
                              .want = 0,
                              .best = TensorView(best.data(), DType::kF32, {n}),
                              .arg = TensorView(arg.data(), DType::kI32, {n}),
                              .scale = p.scale},
                             stream));
  ConstTensorView content = p.queries;
  content.shape[1] = d;
  MatmulParams project;
  project.x = content;
  project.w = p.basis;
  project.out = TensorView(projected.data(), DType::kF32, {n, rank});
  VESTIGE_TRY(ops::matmul(project, stream));
  VESTIGE_TRY(stream.synchronize());
  std::vector<float> samples(static_cast<size_t>(n), kNoSample);
  stream.pool()->run(n, [&](int64_t i, int32_t) {
    const auto k = static_cast<size_t>(i);
    if (arg[k] >= 0) samples[k] = sample(p, i, arg[k], best[k], projected.data() + i * rank);
  });
  std::erase_if(samples, [](float z) { return std::isnan(z); });
  return samples;
}

}  // namespace vestige
