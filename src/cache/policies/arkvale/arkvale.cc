// Pages of rows behind spheres. Source: ArkVale, NeurIPS 2024; radii as in arXiv:2609.03949v1, Table 2.

#include "cache/policies/page_index.h"
#include "cache/policies/settings.h"

namespace vestige {

PolicyInfo arkvale_info() {
  return {"arkvale", "keeps recent rows, recalls each head's best pages by the sphere around their rows",
          "ArkVale (NeurIPS 2024), sphere digests; radii: VestigeKV, arXiv:2609.03949v1, Table 2",
          page_settings({{"mode",
                          0,
                          0,
                          1,
                          "radius. heuristic: mean distance from the centroid; enclosing: the largest, a true bound",
                          {"heuristic", "enclosing"}}})};
}

Result<std::shared_ptr<const CachePolicy>> create_arkvale(const PolicyConfig& config, const RowLayout&) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, arkvale_info()));
  VESTIGE_ASSIGN(PageSettings settings, read_page_settings(complete));
  VESTIGE_ASSIGN(const int32_t mode, whole_setting(complete, "mode"));
  settings.digest = mode == 1 ? PageDigest::kSphere : PageDigest::kMeanSphere;
  return make_page_policy(std::move(complete), settings);
}

}  // namespace vestige
