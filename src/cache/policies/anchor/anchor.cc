// AnchorKV: every closed row attended by a code of its nearest anchor, a coefficient and perhaps a residual.
// Source: arXiv:2608.02901. As built: docs/policies/anchor.md, "As a policy".

#include <algorithm>
#include <array>
#include <cmath>

#include "cache/policies/anchor/anchor_index.h"
#include "cache/policies/anchor/latent_index.h"
#include "cache/policies/anchor/layer_ranking.h"
#include "cache/policies/anchor/utility.h"
#include "cache/policies/coded_policy.h"

namespace vestige {

namespace {

class AnchorPolicy final : public CodedPolicy {
 public:
  AnchorPolicy(PolicyConfig config, anchor::IndexSettings settings, bool latent)
      : CodedPolicy(std::move(config), settings.span), settings_(std::move(settings)), latent_(latent) {}

  std::unique_ptr<LayerFit> create_layer_fit() const override {
    if (exact() || !settings_.whole_layer || latent_) return nullptr;
    return std::make_unique<anchor::LayerRanking>(settings_.pick, settings_.relative);
  }

 protected:
  std::unique_ptr<RecallIndex> make_index(const RowLayout& layout, const KeyRotation& rotation) const override {
    if (latent_) return std::make_unique<anchor::LatentIndex>(layout, settings_);
    return std::make_unique<anchor::AnchorIndex>(layout, rotation, settings_);
  }

 private:
  anchor::IndexSettings settings_;
  bool latent_;  ///< the one-sided form
};

std::vector<const char*> utility_names() {
  std::vector<const char*> names;
  for (const anchor::UtilityRule& rule : anchor::utility_rules()) names.push_back(rule.name);
  return names;
}

Result<anchor::IndexSettings> read_settings(const PolicyConfig& config) {
  constexpr int32_t kFewestRows = 16;  // of a segment: fewer cannot pay for an anchor
  anchor::IndexSettings s;
  s.ratio = config.ratio;
  s.block_rows = config.block_rows;
  s.seed = config.seed;
  VESTIGE_ASSIGN(const int32_t utility, whole_setting(config, "utility"));
  VESTIGE_ASSIGN(const int32_t layout, whole_setting(config, "layout"));
  VESTIGE_ASSIGN(const int32_t pooled, whole_setting(config, "pooled"));
  VESTIGE_ASSIGN(const int32_t anchors, whole_setting(config, "anchors"));
  VESTIGE_ASSIGN(s.bits, whole_setting(config, "bits"));
  VESTIGE_ASSIGN(s.n_near, whole_setting(config, "near"));
  VESTIGE_ASSIGN(const int32_t budget, whole_setting(config, "budget"));
  VESTIGE_ASSIGN(s.n_anchors, whole_setting(config, "n_anchors"));
  VESTIGE_ASSIGN(const int32_t certificate, whole_setting(config, "certificate"));
  VESTIGE_ASSIGN(s.sketch_bytes, whole_setting(config, "sketch_bytes"));
  s.certificate = certificate == 1;
  const anchor::UtilityRule& rule = anchor::utility_rules()[static_cast<size_t>(utility)];
  s.utility = rule.name;
  s.lean = layout == 0;
  s.anchors = std::array{anchor::AnchorRule::kDrawn, anchor::AnchorRule::kFarthest,
                         anchor::AnchorRule::kCentral}[static_cast<size_t>(anchors)];
  s.pick = {.pooled = pooled == 1, .key_share = config.settings.at("key_share")};
  s.whole_layer = budget < 2;
  s.relative = budget == 0 && rule.measures;
  s.rho = config.settings.at("rho");
  VESTIGE_ASSIGN(s.span, span_of_blocks(config, kFewestRows));
  return s;
}

// Always Unsupported: ratios of other rows end elsewhere.
Status check_latent(const RowLayout& layout, const anchor::IndexSettings& s) {
  VESTIGE_TRY(anchor::check_latent_layout(layout));
  if (s.certificate) return unsupported("policy anchor: certificate = on needs rows [value ; key], not latent rows");
  const double highest = anchor::highest_latent_ratio(layout);
  if (s.ratio <= highest) return {};
  return unsupported("ratio = %g, want at most %.1f for policy anchor with latent rows of %d + %d", s.ratio,
                     std::floor(highest * 10) / 10, layout.d_content, layout.d_branch);
}

Status check_layout(const RowLayout& layout, const anchor::IndexSettings& s) {
  if (layout.scored_content) return check_latent(layout, s);
  const int32_t d = layout.d_content;
  if (layout.d_branch != d || d < 8 || d > 4096 || (d & (d - 1)) != 0) {
    return unsupported("policy anchor: values are %d and keys %d wide, want both the same power of two, 8 to 4096", d,
                       layout.d_branch);
  }
  if (s.sketch_bytes > d) {
    return invalid_argument("sketch_bytes = %lld, want at most the width of a head, %d",
                            static_cast<long long>(s.sketch_bytes), d);
  }
  const double highest = anchor::highest_ratio(s, d);
  if (s.ratio <= highest) return {};
  // Rounded down, so that the ratio named is one that is taken.
  return invalid_argument(
      "ratio = %g, want at most %.1f for policy anchor with heads %d wide, layout = %s and certificate = %s", s.ratio,
      std::floor(highest * 10) / 10, d, s.lean ? "lean" : "paper", s.certificate ? "on" : "off");
}

}  // namespace

PolicyInfo anchor_info() {
  return {
      "anchor",
      "attends every row by a code: its nearest anchor, a coefficient and, for some, a residual of 2 bits",
      "AnchorKV, arXiv:2608.02901",
      {
          choice("utility", utility_names(), "which rows get a residual; query_free takes no weights of queries"),
          choice("layout", {"lean", "paper"}, "bytes of a code's parts: ours, or those of the paper's Table 1"),
          {"n_anchors", 0, 0, 65536,
           "anchors of what is coded at a time; 0 = one for 128 rows, 32 at least, for half of the bytes at most"},
          {"window", 32, 0, 32, "last closed rows, kept exact beyond the ratio"},
          {"rho", 0.7, 0, 1, "share of the anchors by score; the rest as `anchors` says"},
          choice("anchors", {"score", "kcenter", "kmeans"},
                 "beside those by score: drawn, the rows farthest from all anchors, or the middle rows of clusters"),
          {"near", 0, 0, 65536, "rows this near to a query have no weight in scores and utilities"},
          {"bits", 2, 2, 4, "of a residual's coordinate: the more, the fewer residuals"},
          {"key_share", 0, 0, 1, "of the residuals' bytes at least, for the keys that anchors miss most"},
          choice("budget", {"relative", "absolute", "head"},
                 "residuals of the document: the best of all heads of a layer, by error relative to a head's "
                 "values or as it is, or of each head"),
          choice("certificate", {"off", "on"},
                 "a bound on the output error of every step, from bounds and sketches that take part of the bytes"),
          {"sketch_bytes", 8, 0, 64, "bytes of a key's sketch, of those; the more, the smaller the bound"},
          choice("pooled", {"off", "on"}, "residuals of keys and values: half each, or in one ranking by byte"),
      }};
}

Result<std::shared_ptr<const CachePolicy>> create_anchor(const PolicyConfig& config, const RowLayout& layout) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, anchor_info()));
  VESTIGE_ASSIGN(anchor::IndexSettings settings, read_settings(complete));
  VESTIGE_TRY(check_layout(layout, settings));
  return std::shared_ptr<const CachePolicy>(
      std::make_shared<AnchorPolicy>(std::move(complete), std::move(settings), layout.scored_content));
}

}  // namespace vestige
