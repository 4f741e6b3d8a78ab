// Keys as uniform codes by channel, values by row, with a window of exact rows. Source: KIVI, arXiv:2402.02750.

#include "cache/policies/kivi/group_quantiser.h"
#include "cache/policies/quantised_policy.h"

namespace vestige {

namespace {

class KiviPolicy final : public QuantisedPolicy {
 public:
  KiviPolicy(PolicyConfig config, const CodedSpan& span, int32_t bits)
      : QuantisedPolicy(std::move(config), span), group_(span.group_rows), bits_(bits) {}

 protected:
  std::unique_ptr<const RowQuantiser> create_quantiser(int64_t d) const override {
    return std::make_unique<kivi::GroupQuantiser>(group_, bits_, d);
  }

 private:
  int64_t group_;
  int32_t bits_;
};

}  // namespace

PolicyInfo kivi_info() {
  return {.name = "kivi",
          .sentence = "attends every row by uniform codes: keys by channel, values by row",
          .source = "KIVI, arXiv:2402.02750",
          .settings = {{"bits", 4, 2, 4, "of a number: 2 or 4"},
                       {"group", 32, 8, 4096, "rows of keys, and channels of values, that share a scale and a minimum"},
                       window_setting()},
          .takes_ratio = false};
}

Result<std::shared_ptr<const CachePolicy>> create_kivi(const PolicyConfig& config, const RowLayout& layout) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, kivi_info()));
  VESTIGE_ASSIGN(const int32_t bits, whole_setting(complete, "bits"));
  VESTIGE_ASSIGN(const int32_t group, whole_setting(complete, "group"));
  if (bits == 3) return invalid_argument("kivi.bits = 3, want 2 or 4");
  VESTIGE_ASSIGN(const CodedSpan span, coded_span(complete, group));
  VESTIGE_TRY(check_coded_layout("kivi", layout));
  if (layout.d_content % 4 != 0) {
    return unsupported("policy kivi: heads are %d wide, want a multiple of 4", layout.d_content);
  }
  return std::shared_ptr<const CachePolicy>(std::make_shared<KiviPolicy>(std::move(complete), span, bits));
}

}  // namespace vestige
