#include "cache/policies/anchor/choose_anchors.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <numeric>

#include "cache/policies/anchor/cover_anchors.h"
#include "cache/policies/anchor/draw.h"

namespace vestige::anchor {

std::vector<float> pooled_scores(std::span<const float> score, int64_t width) {
  const auto n = static_cast<int64_t>(score.size());
  std::vector<float> pooled(score.size());
  for (int64_t t = 0; t < n; ++t) {
    double sum = 0;
    for (int64_t i = std::max<int64_t>(0, t - width / 2); i <= std::min(n - 1, t + width / 2); ++i) {
      sum += static_cast<double>(score[static_cast<size_t>(i)]);
    }
    pooled[static_cast<size_t>(t)] = static_cast<float>(sum / static_cast<double>(width));
  }
  return pooled;
}

Result<std::vector<int32_t>> choose_anchors(const AnchorChoice& c, std::span<const float> score) {
  if (c.n_coded < 0 || c.n_coded > INT32_MAX || c.n_selected < 0 || c.n_selected > c.n_coded) {
    return invalid_argument("anchors: %" PRId64 " of %" PRId64 " tokens, want at most all of them", c.n_selected,
                            c.n_coded);
  }
  if (!(c.rho >= 0 && c.rho <= 1)) return invalid_argument("anchors: rho = %g, want 0 to 1", c.rho);
  const auto n_scored = static_cast<int64_t>(std::floor(c.rho * static_cast<double>(c.n_selected)));
  if (n_scored > 0 && static_cast<int64_t>(score.size()) != c.n_coded) {
    return invalid_argument("anchors: %zu scores, want %" PRId64 ", one a token", score.size(), c.n_coded);
  }
  if (c.rule != AnchorRule::kDrawn && (c.key.rank != 2 || c.value.rank != 2 || c.key.dim(0) < c.n_coded ||
                                       c.value.dim(0) != c.key.dim(0) || c.value.dim(1) != c.key.dim(1))) {
    return invalid_argument("anchors: keys %s and values %s, want both [at least %" PRId64 ", d]",
                            describe(c.key).c_str(), describe(c.value).c_str(), c.n_coded);
  }
  std::vector<int32_t> order(static_cast<size_t>(c.n_coded));
  std::iota(order.begin(), order.end(), 0);
  const auto value = [&](int32_t t) {
    const float s = score[static_cast<size_t>(t)];
    return std::isnan(s) ? -HUGE_VALF : s;
  };
  const auto scored_end = order.begin() + n_scored;
  if (n_scored > 0) {
    std::partial_sort(order.begin(), scored_end, order.end(),
                      [&](int32_t a, int32_t b) { return value(a) != value(b) ? value(a) > value(b) : a < b; });
  }
  if (c.rule != AnchorRule::kDrawn) {
    std::vector<int32_t> given(order.begin(), scored_end);
    for (int64_t t = c.n_coded; t < c.key.dim(0); ++t) given.push_back(static_cast<int32_t>(t));
    const auto cover = c.rule == AnchorRule::kFarthest ? farthest_rows : central_rows;
    const std::vector<int32_t> more =
        cover({.key = c.key, .value = c.value, .n_coded = c.n_coded}, given, c.n_selected - n_scored);
    order.erase(scored_end, order.end());
    order.insert(order.end(), more.begin(), more.end());
    std::sort(order.begin(), order.end());
    return order;
  }
  // Drawn: the smallest of one number a position.
  const uint64_t key = mix(c.seed);
  const auto selected_end = order.begin() + c.n_selected;
  std::partial_sort(scored_end, selected_end, order.end(), [&](int32_t a, int32_t b) {
    const uint64_t x = draw(key, a), y = draw(key, b);
    return x != y ? x < y : a < b;
  });
  order.erase(selected_end, order.end());
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace vestige::anchor
