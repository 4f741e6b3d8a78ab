#include "backend/ops/pick_pages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace vestige {

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// Pages with a row that is not kept.
std::vector<int32_t> candidates(const PageSet& set) {
  std::vector<int32_t> pages;
  for (int64_t page = 0; page < set.n_pages; ++page) {
    const uint8_t* kept = set.kept == nullptr ? nullptr : set.kept + page * set.page_rows;
    const bool open = kept == nullptr || std::any_of(kept, kept + set.page_rows, [](uint8_t k) { return k == 0; });
    if (open) pages.push_back(static_cast<int32_t>(page));
  }
  return pages;
}

void mark_top(std::vector<int32_t> pages, const float* bound, int64_t top_k, std::vector<uint8_t>* picked) {
  const auto k = static_cast<ptrdiff_t>(std::min<int64_t>(top_k, static_cast<int64_t>(pages.size())));
  const auto value = [&](int32_t page) { return std::isnan(bound[page]) ? kInf : bound[page]; };
  std::nth_element(pages.begin(), pages.begin() + k, pages.end(),
                   [&](int32_t a, int32_t b) { return value(a) != value(b) ? value(a) > value(b) : a < b; });
  for (ptrdiff_t i = 0; i < k; ++i) (*picked)[static_cast<size_t>(pages[static_cast<size_t>(i)])] = 1;
}

}  // namespace

void pick_pages(const ScanPagesParams& p, int64_t b, const float* bound) {
  const PageSet& set = p.sets[static_cast<size_t>(b)];
  const int64_t h = p.q.dim(1), capacity = p.ids.dim(1);
  const std::vector<int32_t> pages = candidates(set);
  std::vector<uint8_t> picked(static_cast<size_t>(set.n_pages), 0);
  for (int64_t head = 0; head < h; ++head, bound += set.n_pages) {
    if (p.top_k > 0) {
      mark_top(pages, bound, p.top_k, &picked);
      continue;
    }
    const float threshold = p.threshold.as<float>()[b * h + head];
    if (threshold == kInf) continue;
    for (int32_t page : pages) {
      if (!(bound[page] <= threshold)) picked[static_cast<size_t>(page)] = 1;
    }
  }
  int64_t n_rows = 0, n_pages = 0;
  for (int64_t page = 0; page < set.n_pages; ++page) {
    if (picked[static_cast<size_t>(page)] == 0) continue;
    ++n_pages;
    for (int64_t u = page * set.page_rows; u < (page + 1) * set.page_rows; ++u) {
      if (set.kept != nullptr && set.kept[u] != 0) continue;
      if (n_rows < capacity) p.ids.as<int32_t>()[b * capacity + n_rows] = static_cast<int32_t>(u);
      ++n_rows;
    }
  }
  p.n_fired.as<int32_t>()[b] = static_cast<int32_t>(n_rows);
  p.n_ids.as<int32_t>()[b] = static_cast<int32_t>(std::min(n_rows, capacity));
  if (p.n_pages.rank != 0) p.n_pages.as<int32_t>()[b] = static_cast<int32_t>(n_pages);
}

float covering_radius(double radius, double reach, int64_t d_row) {
  const double grown = radius + static_cast<double>(d_row + 8) * 0x1p-23 * (reach + radius);
  if (!std::isfinite(grown)) return kInf;
  const auto rounded = static_cast<float>(grown);
  return static_cast<double>(rounded) < grown ? std::nextafter(rounded, kInf) : rounded;
}

}  // namespace vestige
