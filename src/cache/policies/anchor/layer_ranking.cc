#include "cache/policies/anchor/layer_ranking.h"

#include <utility>

namespace vestige::anchor {

int64_t LayerRanking::add(const BareLayer& bare) {
  Head& head = heads_.emplace_back(bare.layer.plan, bare.is_anchor[0], bare.key_utility[0], bare.value_utility[0]);
  const double variance = bare.value_variance[0];
  for (std::vector<float>* utility : {&head.key_utility, &head.value_utility}) {
    if (!relative_ || !(variance > 0)) break;
    for (float& u : *utility) u = static_cast<float>(static_cast<double>(u) / variance);
  }
  return static_cast<int64_t>(heads_.size()) - 1;
}

void LayerRanking::rank() {
  std::vector<SideUtility> keys, values;
  int64_t n_key = 0, n_value = 0, n_bytes = 0;
  for (const Head& head : heads_) {
    keys.push_back({head.key_utility, head.is_anchor});
    values.push_back({head.value_utility, head.is_anchor});
    n_key += head.plan.n_key;
    n_value += head.plan.n_value;
    n_bytes += head.plan.budget_bytes - head.plan.base_bytes();
  }
  if (pooled_) {
    pick_ = pick_pooled(keys, values, heads_[0].plan, n_bytes);
  } else {
    pick_ = {pick_residuals(keys, n_key), pick_residuals(values, n_value)};
  }
  ranked_ = true;
}

ResidualPick LayerRanking::take(int64_t head) {
  if (!ranked_) rank();
  const auto h = static_cast<size_t>(head);
  return {{pick_.key[h]}, {pick_.value[h]}};
}

}  // namespace vestige::anchor
