// Every closed row attended by a transform code of unequal bits; the bytes of a sequence are spread over its layers,
// heads, sides, rows and coefficients by one price. As built: docs/policies/klt.md.

#include <algorithm>

#include "cache/policies/coded_policy.h"
#include "cache/policies/klt/klt_index.h"

namespace vestige {

namespace {

class KltPolicy final : public CodedPolicy {
 public:
  KltPolicy(PolicyConfig config, const klt::IndexSettings& settings)
      : CodedPolicy(std::move(config), settings.span), settings_(settings) {}

  std::unique_ptr<LayerFit> create_layer_fit() const override {
    if (exact()) return nullptr;
    return std::make_unique<klt::SharedBudget>();
  }
  bool fits_layers_together() const override { return true; }

 protected:
  std::unique_ptr<RecallIndex> make_index(const RowLayout& layout, const KeyRotation& rotation) const override {
    return std::make_unique<klt::KltIndex>(layout, rotation, settings_);
  }

 private:
  klt::IndexSettings settings_;
};

Status check_layout(const RowLayout& layout) {
  if (layout.scored_content) return unsupported("policy klt codes rows [value ; key], not latent rows");
  const int32_t d = layout.d_content;
  if (layout.d_branch == d && d >= 8 && d <= 256 && d % 8 == 0) return {};
  return unsupported("policy klt: values are %d and keys %d wide, want both the same multiple of 8, 8 to 256", d,
                     layout.d_branch);
}

}  // namespace

PolicyInfo klt_info() {
  return {"klt",
          "attends every row by a transform code: bits go where an error would cost the model most",
          "our own: a Karhunen-Loeve transform in the metric of the document's queries, reverse water-filling",
          {
              {"key_weight", 4, 0.01, 100, "what an error of a key counts against one of a value"},
              {"window", 32, 0, 4096, "last closed rows, kept exact beyond the ratio, for text that goes on"},
              {"near", 128, 0, 4096, "rows this near to a query do not count: those of a question are in the tail"},
          }};
}

Result<std::shared_ptr<const CachePolicy>> create_klt(const PolicyConfig& config, const RowLayout& layout) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, klt_info()));
  constexpr int32_t kFewest = 16;  // rows of a block that are coded
  VESTIGE_ASSIGN(const CodedSpan span, span_of_blocks(complete, kFewest));
  VESTIGE_ASSIGN(const int32_t n_near, whole_setting(complete, "near"));
  VESTIGE_TRY(check_layout(layout));
  const klt::IndexSettings settings = {.ratio = complete.ratio,
                                       .block_rows = complete.block_rows,
                                       .span = span,
                                       .weighting = {complete.settings.at("key_weight"), n_near}};
  return std::shared_ptr<const CachePolicy>(std::make_shared<KltPolicy>(std::move(complete), settings));
}

}  // namespace vestige
