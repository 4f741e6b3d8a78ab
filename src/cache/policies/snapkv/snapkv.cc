// The rows that the document's last queries attend, smoothed along the sequence. Source: SnapKV, arXiv:2404.14469.

#include "cache/policies/snapkv_policy.h"

namespace vestige {

PolicyInfo snapkv_info() {
  return {"snapkv", "keeps the rows that the document's last queries attend, with their neighbours",
          "SnapKV, arXiv:2404.14469: column sums of the last queries' softmax, average pooled", snapkv_settings()};
}

Result<std::shared_ptr<const CachePolicy>> create_snapkv(const PolicyConfig& config, const RowLayout&) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, snapkv_info()));
  VESTIGE_ASSIGN(const SnapKvSettings settings, read_snapkv_settings(complete));
  return std::shared_ptr<const CachePolicy>(std::make_shared<SnapKvPolicy>(std::move(complete), settings));
}

}  // namespace vestige
