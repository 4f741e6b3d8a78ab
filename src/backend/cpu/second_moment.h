#pragma once

// Second moments of many vectors, in float64, added up in fixed runs so that no bit depends on the threads.

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"

namespace vestige::cpu {

/// n vectors of d floats; vector i starts at data + i / per_item * item_stride + i % per_item * vector_stride.
struct Vectors {
  const float* data = nullptr;
  int64_t n = 0, d = 0;
  int64_t vector_stride = 0;
  int64_t per_item = 1, item_stride = 0;
  const float* at(int64_t i) const { return data + i / per_item * item_stride + i % per_item * vector_stride; }
};

/// Vectors are added up in runs of rows, each by one task, and the runs in order.
struct MomentRuns {
  int64_t rows = 512, most = 16;
};

std::vector<double> mean_of(const Vectors& x);

/// Lower triangle of sum (x - mean) (x - mean)^T / n, [d, d]; null = no mean.
std::vector<double> second_moment(const Vectors& x, const double* mean, MomentRuns runs, ThreadPool& pool);

}  // namespace vestige::cpu
