#include "cache/policies/coded_policy.h"

namespace vestige {

Result<CodedSpan> span_of_blocks(const PolicyConfig& complete, int32_t fewest) {
  VESTIGE_ASSIGN(const int32_t window, whole_setting(complete, "window"));
  const int32_t most = complete.block_rows - window - fewest;
  if (most < 0) {
    return invalid_argument("%s.window = %d, want at most block_rows - %d = %d", complete.name.c_str(), window, fewest,
                            complete.block_rows - fewest);
  }
  if (complete.n_sinks > most) {
    return invalid_argument("n_sinks = %d, want at most block_rows - window - %d = %d with policy %s", complete.n_sinks,
                            fewest, most, complete.name.c_str());
  }
  return CodedSpan{.n_sinks = complete.n_sinks, .window = window};
}

}  // namespace vestige
