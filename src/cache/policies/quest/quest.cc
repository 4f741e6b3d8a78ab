// Pages of rows behind boxes. Source: Quest, arXiv:2406.10774; under NoPE the box is a true bound
// (arXiv:2609.03949v1, Eq. 9).

#include "cache/policies/page_index.h"
#include "cache/policies/settings.h"

namespace vestige {

PolicyInfo quest_info() {
  return {"quest", "keeps recent rows, recalls pages by the box around their rows",
          "Quest, arXiv:2406.10774; bound: VestigeKV, arXiv:2609.03949v1, Eq. 9",
          page_settings({{"mode",
                          0,
                          0,
                          1,
                          "top_k: each head's n_pages best boxes; bound: every box that may beat the kept rows",
                          {"top_k", "bound"}}})};
}

Result<std::shared_ptr<const CachePolicy>> create_quest(const PolicyConfig& config, const RowLayout&) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, quest_info()));
  VESTIGE_ASSIGN(PageSettings settings, read_page_settings(complete));
  VESTIGE_ASSIGN(const int32_t mode, whole_setting(complete, "mode"));
  if (mode == 1) settings.top_k = 0;
  settings.digest = PageDigest::kBox;
  return make_page_policy(std::move(complete), settings);
}

}  // namespace vestige
