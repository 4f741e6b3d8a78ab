#include "vestige/policy.h"

// One line a policy: <name>_info() and create_<name>(), which its own file defines.
#define VESTIGE_POLICIES(X) \
  X(full)                   \
  X(streaming)              \
  X(random)                 \
  X(full_row)               \
  X(branch_norm)            \
  X(narrow_branch)          \
  X(h2o)                    \
  X(h2o_recent)             \
  X(snapkv)                 \
  X(adakv)                  \
  X(pyramidkv)              \
  X(tova)                   \
  X(expected_attention)     \
  X(kvzip)                  \
  X(oracle)                 \
  X(quest)                  \
  X(arkvale)                \
  X(kivi)                   \
  X(turboquant)             \
  X(anchor)                 \
  X(klt)                    \
  X(vestige)

namespace vestige {

#define VESTIGE_DECLARE_POLICY(name) \
  PolicyInfo name##_info();          \
  Result<std::shared_ptr<const CachePolicy>> create_##name(const PolicyConfig& config, const RowLayout& layout);
VESTIGE_POLICIES(VESTIGE_DECLARE_POLICY)
#undef VESTIGE_DECLARE_POLICY

namespace {

struct PolicyEntry {
  PolicyInfo (*info)();
  Result<std::shared_ptr<const CachePolicy>> (*create)(const PolicyConfig& config, const RowLayout& layout);
};

constexpr PolicyEntry kPolicies[] = {
#define VESTIGE_POLICY_ENTRY(name) {name##_info, create_##name},
    VESTIGE_POLICIES(VESTIGE_POLICY_ENTRY)
#undef VESTIGE_POLICY_ENTRY
};

}  // namespace

std::vector<PolicyInfo> policy_infos() {
  std::vector<PolicyInfo> infos;
  for (const PolicyEntry& entry : kPolicies) infos.push_back(entry.info());
  return infos;
}

Result<std::shared_ptr<const CachePolicy>> create_policy(const PolicyConfig& config, const RowLayout& layout) {
  std::string known;
  for (const PolicyEntry& entry : kPolicies) {
    const PolicyInfo info = entry.info();
    if (config.name == info.name) return entry.create(config, layout);
    known += (known.empty() ? "" : ", ") + std::string(info.name);
  }
  return invalid_argument("policy = \"%s\", want one of: %s", config.name.c_str(), known.c_str());
}

}  // namespace vestige
