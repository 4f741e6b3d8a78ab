#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/ops/pick_pages.h"
#include "backend/ops/row_access.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

namespace {

double bound(const PageSet& set, const float* q, int64_t d, int64_t page) {
  const auto block = static_cast<size_t>(page / set.block_pages);
  const int64_t at = page % set.block_pages;
  double sum = 0, square = 0;
  for (int64_t k = 0; k < d; ++k) {
    const void* side = set.lower != nullptr && q[k] < 0 ? set.lower[block] : set.upper[block];
    sum += static_cast<double>(q[k]) * static_cast<double>(load_number(side, set.dtype, at * d + k));
    square += static_cast<double>(q[k]) * static_cast<double>(q[k]);
  }
  return sum + std::sqrt(square) * static_cast<double>(static_cast<const float*>(set.radius[block])[at]);
}

}  // namespace

Status scan_pages(const ScanPagesParams& p, Stream&) {
  const int64_t h = p.q.dim(1), d = p.q.dim(2);
  for (int64_t b = 0; b < p.q.dim(0); ++b) {
    const PageSet& set = p.sets[static_cast<size_t>(b)];
    std::vector<float> bounds;
    for (int64_t head = 0; head < h; ++head) {
      for (int64_t page = 0; page < set.n_pages; ++page) {
        const double x = static_cast<double>(p.scale) * bound(set, p.q.as<float>() + (b * h + head) * d, d, page);
        bounds.push_back(static_cast<float>(x));
      }
    }
    pick_pages(p, b, bounds.data());
  }
  return {};
}

}  // namespace vestige::ref
