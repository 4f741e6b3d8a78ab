// Attention over every row, the baseline all policies are compared with.

#include <cstring>

#include "cache/policies/settings.h"

namespace vestige {

namespace {

class FullPolicy final : public ConfiguredPolicy {
 public:
  using ConfiguredPolicy::ConfiguredPolicy;
  int64_t n_keep(int64_t n_closed) const override { return n_closed; }
  Status score_block(const ConstTensorView&, const ConstTensorView&, int64_t, const TensorView& score,
                     Stream&) const override {
    std::memset(score.data, 0, static_cast<size_t>(score.n_elements()) * sizeof(float));
    return {};
  }
};

}  // namespace

PolicyInfo full_info() {
  return {.name = "full",
          .sentence = "keeps every row; the ratio is not used",
          .source = "baseline",
          .settings = {},
          .takes_ratio = false};
}

Result<std::shared_ptr<const CachePolicy>> create_full(const PolicyConfig& config, const RowLayout&) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, full_info()));
  return std::shared_ptr<const CachePolicy>(std::make_shared<FullPolicy>(std::move(complete)));
}

}  // namespace vestige
