#include "cache/policies/anchor/layer_ranking.h"

#include <utility>

namespace vestige::anchor {

int64_t LayerRanking::add(const BareLayer& bare) {
  Head& head = heads_.emplace_back(bare.layer.plan, bare.is_anchor[0], bare.key_utility[0], bare.value_utility[0],
                                   bare.key_cosine[0]);
  const double variance = bare.value_variance[0];
  for (std::vector<float>* utility : {&head.key_utility, &head.value_utility}) {
    if (!relative_ || !(variance > 0)) break;
    for (float& u : *utility) u = static_cast<float>(static_cast<double>(u) / variance);
  }
  return static_cast<int64_t>(heads_.size()) - 1;
}

void LayerRanking::rank() {
  std::vector<SideUtility> keys, values;
  PickRoom room;
  for (const Head& head : heads_) {
    keys.push_back({head.key_utility, head.is_anchor, head.key_cosine});
    values.push_back({head.value_utility, head.is_anchor});
    room.n_key += head.plan.n_key;
    room.n_value += head.plan.n_value;
    room.n_bytes += head.plan.budget_bytes - head.plan.base_bytes();
  }
  pick_ = pick_layer(keys, values, settings_, heads_[0].plan, room);
  ranked_ = true;
}

ResidualPick LayerRanking::take(int64_t head) {
  if (!ranked_) rank();
  const auto h = static_cast<size_t>(head);
  return {{pick_.key[h]}, {pick_.value[h]}};
}

}  // namespace vestige::anchor
