#include "cache/policies/anchor/pick_residuals.h"

#include <algorithm>
#include <cmath>

namespace vestige::anchor {

namespace {

struct Candidate {
  double gain;
  int32_t side, head, position;
};

bool before(const Candidate& a, const Candidate& b) {
  if (a.gain != b.gain) return a.gain > b.gain;
  if (a.side != b.side) return a.side < b.side;
  return a.head != b.head ? a.head < b.head : a.position < b.position;
}

void add_candidates(std::span<const SideUtility> heads, int32_t side, int64_t n_bytes, std::vector<Candidate>* out) {
  for (size_t h = 0; h < heads.size(); ++h) {
    for (size_t t = 0; t < heads[h].utility.size(); ++t) {
      if (heads[h].is_anchor[t] != 0) continue;
      const auto u = static_cast<double>(heads[h].utility[t]);
      const double gain = std::isnan(u) ? -HUGE_VAL : u / static_cast<double>(n_bytes);
      out->push_back({gain, side, static_cast<int32_t>(h), static_cast<int32_t>(t)});
    }
  }
}

std::vector<std::vector<uint64_t>> empty_masks(std::span<const SideUtility> heads) {
  std::vector<std::vector<uint64_t>> masks;
  for (const SideUtility& head : heads) masks.emplace_back((head.utility.size() + 63) / 64, 0);
  return masks;
}

void set(std::vector<std::vector<uint64_t>>* masks, const Candidate& c) {
  const auto t = static_cast<size_t>(c.position);
  (*masks)[static_cast<size_t>(c.head)][t / 64] |= uint64_t{1} << (t % 64);
}

}  // namespace

std::vector<std::vector<uint64_t>> pick_residuals(std::span<const SideUtility> heads, int64_t n_residuals) {
  std::vector<Candidate> all;
  add_candidates(heads, 0, 1, &all);
  const auto n = std::min<int64_t>(n_residuals, static_cast<int64_t>(all.size()));
  std::nth_element(all.begin(), all.begin() + n, all.end(), before);
  std::vector<std::vector<uint64_t>> masks = empty_masks(heads);
  for (int64_t i = 0; i < n; ++i) set(&masks, all[static_cast<size_t>(i)]);
  return masks;
}

namespace {

std::vector<std::vector<uint64_t>> farthest_keys(std::span<const SideUtility> keys, int64_t n) {
  std::vector<std::vector<float>> distance;
  std::vector<SideUtility> by_distance;
  for (const SideUtility& head : keys) {
    std::vector<float>& far = distance.emplace_back();
    for (const float cosine : head.cosine) far.push_back(1 - cosine);
    by_distance.push_back({far, head.is_anchor});
  }
  return pick_residuals(by_distance, n);
}

}  // namespace

ResidualPick pick_pooled(std::span<const SideUtility> keys, std::span<const SideUtility> values, const BytePlan& plan,
                         int64_t n_bytes) {
  std::vector<Candidate> all;
  add_candidates(keys, 0, plan.key_residual_bytes(), &all);
  add_candidates(values, 1, plan.value_residual_bytes(), &all);
  std::sort(all.begin(), all.end(), before);
  ResidualPick pick = {empty_masks(keys), empty_masks(values)};
  for (const Candidate& c : all) {
    n_bytes -= c.side == 0 ? plan.key_residual_bytes() : plan.value_residual_bytes();
    if (n_bytes < 0) break;
    set(c.side == 0 ? &pick.key : &pick.value, c);
  }
  return pick;
}

ResidualPick pick_layer(std::span<const SideUtility> keys, std::span<const SideUtility> values,
                        const PickSettings& settings, const BytePlan& plan, const PickRoom& room) {
  int64_t n_key = room.n_key, n_value = room.n_value;
  std::vector<std::vector<float>> raised;
  std::vector<SideUtility> ranked(keys.begin(), keys.end());
  if (settings.key_share > 0) {
    const auto share = static_cast<int64_t>(settings.key_share * static_cast<double>(room.n_bytes));
    const int64_t n_sure = share / plan.key_residual_bytes();
    const std::vector<std::vector<uint64_t>> sure = farthest_keys(keys, n_sure);
    int64_t n_set = 0;
    for (size_t h = 0; h < keys.size(); ++h) {
      std::vector<float>& utility = raised.emplace_back(keys[h].utility.begin(), keys[h].utility.end());
      for (size_t t = 0; t < utility.size(); ++t) {
        if ((sure[h][t / 64] >> (t % 64) & 1) == 0) continue;
        utility[t] = HUGE_VALF;
        ++n_set;
      }
      ranked[h].utility = utility;
    }
    n_key = std::max(n_key, n_set);
    n_value = std::min(n_value, (room.n_bytes - n_key * plan.key_residual_bytes()) / plan.value_residual_bytes());
  }
  if (settings.pooled) return pick_pooled(ranked, values, plan, room.n_bytes);
  return {pick_residuals(ranked, n_key), pick_residuals(values, n_value)};
}

}  // namespace vestige::anchor
