#include "tools/default_policy.h"

#include <algorithm>
#include <cstdio>

namespace vestige::tools {

const std::vector<PolicyConfig>& default_policies() {
  static const std::vector<PolicyConfig> all = [] {
    std::vector<PolicyConfig> policies(2);
    policies[0].name = "klt";
    policies[0].ratio = 20;
    policies[0].block_rows = 256;  // small: what is in the open tail is not coded
    policies[1].name = "vestige";
    return policies;
  }();
  return all;
}

const PolicyConfig& default_policy(const std::vector<CacheLayer>& layers) {
  const auto takes_all = [&](const PolicyConfig& policy) {
    return std::ranges::all_of(layers, [&](const CacheLayer& l) { return create_policy(policy, l.layout).ok(); });
  };
  const auto& all = default_policies();
  const auto found = std::ranges::find_if(all, takes_all);
  return found == all.end() ? all.back() : *found;
}

std::string default_policy_sentence(const PolicyConfig& policy, const std::vector<CacheLayer>& layers) {
  std::string rows = "a model without rows";
  if (!layers.empty()) {
    const RowLayout& layout = layers[0].layout;
    rows = "latent rows";
    if (!layout.scored_content) {
      rows = "values " + std::to_string(layout.d_content) + " and keys " + std::to_string(layout.d_branch) + " wide";
    }
  }
  char text[200];
  std::snprintf(text, sizeof text, "policy %s, ratio %g, block_rows %d: the default for %s (--policy names another)",
                policy.name.c_str(), policy.ratio, policy.block_rows, rows.c_str());
  return text;
}

}  // namespace vestige::tools
