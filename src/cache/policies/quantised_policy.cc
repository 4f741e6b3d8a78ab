#include "cache/policies/quantised_policy.h"

namespace vestige {

Result<CodedSpan> coded_span(const PolicyConfig& complete, int64_t group_rows) {
  if (complete.block_rows % group_rows != 0) {
    return invalid_argument("block_rows = %d, want a multiple of %s.group = %lld", complete.block_rows,
                            complete.name.c_str(), static_cast<long long>(group_rows));
  }
  VESTIGE_ASSIGN(const int32_t window, whole_setting(complete, "window"));
  return CodedSpan{.n_sinks = complete.n_sinks, .window = window, .group_rows = group_rows};
}

Status check_coded_layout(const char* policy, const RowLayout& layout) {
  if (layout.scored_content) return unsupported("policy %s codes rows [value ; key], not latent rows", policy);
  if (layout.d_branch == layout.d_content) return {};
  return unsupported("policy %s: values are %d and keys %d wide, want both the same", policy, layout.d_content,
                     layout.d_branch);
}

}  // namespace vestige
