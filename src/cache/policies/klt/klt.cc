// Every closed row attended by a transform code of unequal bits; the bytes of a sequence are spread over its layers,
// heads, sides, rows and coefficients by one price. As built: docs/policies/klt.md.

#include <algorithm>

#include "cache/policies/klt/klt_index.h"
#include "cache/policies/settings.h"

namespace vestige {

namespace {

class KltPolicy final : public ConfiguredPolicy {
 public:
  KltPolicy(PolicyConfig config, const klt::IndexSettings& settings)
      : ConfiguredPolicy(std::move(config)), settings_(settings) {}

  /// The window: the ratio is that of the codes.
  int64_t n_keep(int64_t n_closed) const override {
    return config().ratio == 1 ? n_closed : std::min(n_closed, settings_.window);
  }
  Status score_block(const ConstTensorView&, const ConstTensorView&, int64_t first_position, const TensorView& score,
                     Stream&) const override {
    return score_by_position(first_position, score);
  }
  bool scores_by_position() const override { return true; }
  std::unique_ptr<RecallIndex> create_index(const RowLayout& layout, const KeyRotation& rotation) const override {
    if (config().ratio == 1) return nullptr;
    return std::make_unique<klt::KltIndex>(layout, rotation, settings_);
  }
  double coded_row_bytes(const RowLayout& layout) const override {
    return config().ratio == 1 ? 0 : double(layout.row_bytes()) / config().ratio;
  }
  std::unique_ptr<LayerFit> create_layer_fit() const override {
    if (config().ratio == 1) return nullptr;
    return std::make_unique<klt::SharedBudget>();
  }
  bool fits_layers_together() const override { return true; }

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
  VESTIGE_ASSIGN(const int32_t window, whole_setting(complete, "window"));
  const int32_t fewest = 16;  // rows of a block that are coded
  const int32_t most = complete.block_rows - window - fewest;
  if (most < 0) {
    return invalid_argument("klt.window = %d, want at most block_rows - %d = %d", window, fewest,
                            complete.block_rows - fewest);
  }
  if (complete.n_sinks > most) {
    return invalid_argument("n_sinks = %d, want at most block_rows - window - %d = %d with policy klt",
                            complete.n_sinks, fewest, most);
  }
  VESTIGE_ASSIGN(const int32_t n_near, whole_setting(complete, "near"));
  VESTIGE_TRY(check_layout(layout));
  const klt::IndexSettings settings = {.ratio = complete.ratio,
                                       .block_rows = complete.block_rows,
                                       .n_sinks = complete.n_sinks,
                                       .window = window,
                                       .weighting = {complete.settings.at("key_weight"), n_near}};
  return std::shared_ptr<const CachePolicy>(std::make_shared<KltPolicy>(std::move(complete), settings));
}

}  // namespace vestige
