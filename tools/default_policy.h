#pragma once

// The policy of a model for which the user names none.

#include <string>
#include <vector>

#include "vestige/model.h"
#include "vestige/policy.h"

namespace vestige::tools {

/// Name, ratio and block of each policy that is a default, the preferred one first; the last takes every model's rows.
const std::vector<PolicyConfig>& default_policies();
/// The first of them that takes the rows of every layer: klt for keys and values that it can code, else vestige.
/// The layouts decide, by create_policy, never the model's name.
const PolicyConfig& default_policy(const std::vector<CacheLayer>& layers);
/// What `policy`, the default with the user's other flags, was chosen for; a line without its newline.
std::string default_policy_sentence(const PolicyConfig& policy, const std::vector<CacheLayer>& layers);

}  // namespace vestige::tools
