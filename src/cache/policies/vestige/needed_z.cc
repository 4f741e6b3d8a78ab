#include "cache/policies/vestige/needed_z.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/load_number.h"
#include "base/thread_pool.h"
#include "cache/policies/vestige/best_archived.h"

namespace vestige {

namespace {

constexpr float kNoSample = std::numeric_limits<float>::quiet_NaN();

// What one thread works in, taken before the loop: nothing in it may throw.
struct Work {
  double* sum;       // [r]
  float* projected;  // [r]
  float* left;       // [d_content]
};

/// V q_c as scan_archive has it: summed in float64, then rounded to float32. `turned` is V^T, so that the r sums run
/// side by side.
void project(const float* q_c, const std::vector<double>& turned, int64_t rank, int64_t d, const Work& work) {
  std::fill_n(work.sum, rank, 0.0);
  for (int64_t k = 0; k < d; ++k) {
    const double x = q_c[k];
    const double* v = turned.data() + k * rank;
    for (int64_t j = 0; j < rank; ++j) work.sum[j] += x * v[j];
  }
  for (int64_t j = 0; j < rank; ++j) work.projected[j] = static_cast<float>(work.sum[j]);
}

/// || q_c - V^T V q_c ||, from the unrounded projection.
double residual_norm(const float* q_c, const ConstTensorView& basis, const Work& work) {
  const int64_t d = basis.dim(1);
  std::copy_n(q_c, d, work.left);
  for (int64_t j = 0; j < basis.dim(0); ++j) {
    const float* v = basis.as<float>() + j * d;
    for (int64_t k = 0; k < d; ++k) work.left[k] -= work.projected[j] * v[k];
  }
  double sum = 0;
  for (int64_t k = 0; k < d; ++k) sum += static_cast<double>(work.left[k]) * work.left[k];
  return std::sqrt(sum);
}

float sample(const NeededZ& p, int64_t i, int64_t row, float true_score, const std::vector<double>& turned,
             const Work& work) {
  const RowLayout& layout = p.of.rows.layout;
  const int64_t rank = p.basis.dim(0);
  if (rank == layout.d_content) return kNoSample;  // cert = 0
  const float* q = p.of.queries.as<float>() + i * layout.d_row();
  const auto page = static_cast<size_t>(row / p.of.rows.page_rows);
  const int64_t at = row % p.of.rows.page_rows;
  project(q, turned, rank, layout.d_content, work);
  const double row_residual = static_cast<const float*>(p.residual[page])[at];
  const double cert =
      p.of.scale * residual_norm(q, p.basis, work) * row_residual / std::sqrt(double(layout.d_content - rank));
  if (cert == 0) return kNoSample;
  double idx = 0;
  for (int64_t j = 0; j < layout.d_branch; ++j) {
    const float x = q[layout.d_content + j];
    const float stored = layout.dtype == DType::kF32 ? x : bf16_to_f32(f32_to_bf16(x));
    idx += static_cast<double>(stored) *
           load_number(p.of.rows.branch[page], layout.dtype, at * p.of.rows.branch_stride + j);
  }
  const auto* sketch = static_cast<const uint16_t*>(p.sketch[page]) + at * rank;
  for (int64_t j = 0; j < rank; ++j) {
    idx += static_cast<double>(f16_to_f32(f32_to_f16(work.projected[j]))) * f16_to_f32(sketch[j]);
  }
  const auto z = static_cast<float>((true_score - p.of.scale * idx) / cert);
  // A sample that is not a number must not lower z.
  return std::isnan(z) ? std::numeric_limits<float>::infinity() : z;
}

}  // namespace

Result<std::vector<float>> needed_z(const NeededZ& p, Stream& stream) {
  const int64_t n = p.of.queries.dim(0) * p.of.queries.dim(1), rank = p.basis.dim(0), d = p.basis.dim(1);
  VESTIGE_ASSIGN(const BestArchived best, best_archived(p.of, stream));
  std::vector<double> turned(static_cast<size_t>(rank * d));
  for (int64_t i = 0; i < rank * d; ++i) turned[static_cast<size_t>(i % d * rank + i / d)] = p.basis.as<float>()[i];
  const int64_t n_threads = stream.n_threads();
  std::vector<double> sums(static_cast<size_t>(n_threads * rank));
  std::vector<float> floats(static_cast<size_t>(n_threads * (rank + d)));
  std::vector<float> samples(static_cast<size_t>(n), kNoSample);
  stream.pool()->run(n, [&](int64_t i, int32_t thread) {
    const auto k = static_cast<size_t>(i);
    float* const own = floats.data() + thread * (rank + d);
    const Work work = {sums.data() + thread * rank, own, own + rank};
    if (best.row[k] >= 0) samples[k] = sample(p, i, best.row[k], best.target[k], turned, work);
  });
  std::erase_if(samples, [](float z) { return std::isnan(z); });
  return samples;
}

}  // namespace vestige
