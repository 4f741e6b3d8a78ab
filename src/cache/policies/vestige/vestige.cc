// VestigeKV: rows whose branch leaves its own low-pass stay attended, all others go to an exact archive from
// which a sketch recalls them. Source: arXiv:2609.03949v1, Eq. 3 and 4. As built: docs/policies/vestige.md.

#include <algorithm>

#include "cache/policies/settings.h"
#include "cache/policies/vestige/recall_index.h"

namespace vestige {

namespace {

enum Schedule : int32_t { kProportional, kConstant };

struct VestigeSettings {
  int32_t bandwidth = 0;
  int64_t n_constant = 0;  ///< rows kept however long the sequence is; 0 = 1 / ratio of the closed rows
  RecallSettings recall;
};

class VestigePolicy final : public ConfiguredPolicy {
 public:
  VestigePolicy(PolicyConfig config, const VestigeSettings& settings)
      : ConfiguredPolicy(std::move(config)), settings_(settings) {}

  Status score_block(const ConstTensorView&, const ConstTensorView& branch, int64_t, const TensorView& score,
                     Stream& stream) const override {
    return ops::score_rows({.branch = branch, .score = score, .bandwidth = settings_.bandwidth}, stream);
  }

  int64_t n_keep(int64_t n_closed) const override {
    if (settings_.n_constant == 0) return CachePolicy::n_keep(n_closed);
    return std::min(n_closed, settings_.n_constant);
  }

  std::unique_ptr<RecallIndex> create_index(const RowLayout& layout) const override {
    if ((config().ratio == 1 && settings_.n_constant == 0) || settings_.recall.max_recall == 0) return nullptr;
    return std::make_unique<SketchIndex>(layout, config().block_rows, settings_.recall);
  }

 private:
  VestigeSettings settings_;
};

Result<VestigeSettings> read_settings(const PolicyConfig& config) {
  VestigeSettings s;
  VESTIGE_ASSIGN(s.bandwidth, whole_setting(config, "bandwidth"));
  if (s.bandwidth > config.block_rows / 2) {
    return invalid_argument("vestige.bandwidth = %d, want 1 to block_rows / 2 = %d", s.bandwidth,
                            config.block_rows / 2);
  }
  VESTIGE_ASSIGN(const int32_t schedule, whole_setting(config, "schedule"));
  VESTIGE_ASSIGN(const int32_t n_constant, whole_setting(config, "n_keep"));
  s.n_constant = schedule == kConstant ? n_constant : 0;
  VESTIGE_ASSIGN(s.recall.sketch_rank, whole_setting(config, "sketch_rank"));
  VESTIGE_ASSIGN(s.recall.n_calibrate, whole_setting(config, "n_calibrate"));
  VESTIGE_ASSIGN(s.recall.max_recall, whole_setting(config, "max_recall"));
  s.recall.tau = config.settings.at("tau");
  s.recall.z_max = static_cast<float>(config.settings.at("z_max"));
  return s;
}

}  // namespace

PolicyInfo vestige_info() {
  return {"vestige",
          "keeps the rows whose branch leaves its low-pass, recalls archived rows by a sketch",
          "VestigeKV, arXiv:2609.03949v1, Eq. 3 and 4",
          {
              {"bandwidth", 16, 1, 4096, "rFFT bins of a block that count as low-pass, at most block_rows / 2"},
              {"schedule",
               kProportional,
               kProportional,
               kConstant,
               "how many rows are kept as the sequence grows",
               {"proportional", "constant"}},
              {"n_keep", 1024, 1, 1 << 24, "rows that schedule constant keeps, sinks not counted; no ratio then"},
              {"sketch_rank", 64, 1, 1024, "width of the archive's sketch; at most d_content is used"},
              {"n_calibrate", 256, 1, 1024, "last prompt tokens whose queries set the certificate's weight z"},
              {"max_recall", 4096, 0, 1 << 24, "rows recalled in a step; more = the whole archive; 0 = no recall"},
              {"tau", 0.90, 0.5, 0.999, "share of needed rows that calibration wants recalled"},
              {"z_max", 8, 0, 64, "largest z, and z where there are too few calibration queries"},
          }};
}

Result<std::shared_ptr<const CachePolicy>> create_vestige(const PolicyConfig& config, const RowLayout& layout) {
  if (layout.d_branch < 1) {
    return unsupported("policy vestige scores rows by their branch; this layout has d_branch = %d", layout.d_branch);
  }
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, vestige_info()));
  VESTIGE_ASSIGN(const VestigeSettings settings, read_settings(complete));
  return std::shared_ptr<const CachePolicy>(std::make_shared<VestigePolicy>(std::move(complete), settings));
}

}  // namespace vestige
