#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "backend/ref/ref_ops.h"

namespace vestige::ref {

Status select_rows(const SelectRowsParams& p, Stream&) {
  const int64_t n = p.score.dim(0);
  const float* score = p.score.as<float>();
  auto value = [score](int32_t u) { return std::isnan(score[u]) ? -std::numeric_limits<float>::infinity() : score[u]; };
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return value(a) > value(b); });
  std::vector<char> chosen(static_cast<size_t>(n), 0);
  for (int64_t i = 0; i < p.n_keep; ++i) chosen[static_cast<size_t>(order[static_cast<size_t>(i)])] = 1;
  for (int64_t u = 0; u < p.n_sinks; ++u) chosen[static_cast<size_t>(u)] = 1;
  int32_t n_ids = 0;
  for (int64_t u = 0; u < n; ++u) {
    if (chosen[static_cast<size_t>(u)] != 0) p.ids.as<int32_t>()[n_ids++] = static_cast<int32_t>(u);
  }
  *p.n_ids.as<int32_t>() = n_ids;
  return {};
}

}  // namespace vestige::ref
