// VestigeKV: rows whose branch leaves its own low-pass stay attended, all others go to an exact archive from
// which an index recalls them. Source: arXiv:2609.03949v1, Eq. 3 and 4. As built: docs/policies/vestige.md.

#include <algorithm>

#include "cache/policies/settings.h"
#include "cache/policies/vestige/recall_index.h"

namespace vestige {

namespace {

enum class Codec : uint8_t { kRows, kSketch };
enum class Schedule : uint8_t { kProportional, kConstant };

struct VestigeSettings {
  int32_t bandwidth = 0;
  int64_t n_constant = 0;  ///< rows kept however long the sequence is; 0 = 1 / ratio of the closed rows
  RecallSettings recall;
  Codec codec = Codec::kRows;
  int32_t sketch_rank = 64;
  RowCodecSettings code;
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

  std::unique_ptr<RecallIndex> create_index(const RowLayout& layout, const KeyRotation&) const override {
    if ((config().ratio == 1 && settings_.n_constant == 0) || settings_.recall.max_recall == 0) return nullptr;
    std::unique_ptr<IndexCodec> codec = settings_.codec == Codec::kSketch
                                            ? create_sketch_codec(layout, config().block_rows, settings_.sketch_rank)
                                            : create_row_codec(layout, config().block_rows, settings_.code);
    return std::make_unique<VestigeIndex>(settings_.recall, std::move(codec));
  }

 private:
  VestigeSettings settings_;
};

/// Bytes of the codes; -1 = what the mode wants.
Result<VestigeSettings> read_code(const PolicyConfig& config, VestigeSettings* s) {
  const bool through = s->recall.mode == RecallMode::kThrough;
  s->code.values = through;
  VESTIGE_ASSIGN(s->code.code_bytes, whole_setting(config, "code_bytes"));
  VESTIGE_ASSIGN(s->code.refine_bytes, whole_setting(config, "refine_bytes"));
  if (s->code.code_bytes < 0) s->code.code_bytes = through ? 108 : 72;
  if (s->code.refine_bytes < 0) s->code.refine_bytes = through ? 0 : 144;
  for (const auto& [name, bytes] :
       {std::pair{"code_bytes", s->code.code_bytes}, std::pair{"refine_bytes", s->code.refine_bytes}}) {
    if (bytes % 4 != 0) return invalid_argument("vestige.%s = %d, want a multiple of 4, or -1", name, bytes);
  }
  if (s->code.code_bytes == 0) return invalid_argument("vestige.code_bytes = 0, want at least 4, or -1");
  if (s->codec == Codec::kSketch && (through || s->recall.top_j > 0)) {
    return invalid_argument("vestige.codec = sketch goes with neither mode = through nor top_j, want codec = klt");
  }
  if (s->recall.mode == RecallMode::kSound && s->recall.top_j > 0) {
    return invalid_argument("vestige.top_j = %d with mode = sound, want 0: a cap breaks the promise", s->recall.top_j);
  }
  return *s;
}

Result<VestigeSettings> read_settings(const PolicyConfig& config) {
  VestigeSettings s;
  VESTIGE_ASSIGN(s.bandwidth, whole_setting(config, "bandwidth"));
  if (s.bandwidth > config.block_rows / 2) {
    return invalid_argument("vestige.bandwidth = %d, want 1 to block_rows / 2 = %d", s.bandwidth,
                            config.block_rows / 2);
  }
  VESTIGE_ASSIGN(const int32_t schedule, whole_setting(config, "schedule"));
  VESTIGE_ASSIGN(const int32_t n_constant, whole_setting(config, "n_keep"));
  s.n_constant = static_cast<Schedule>(schedule) == Schedule::kConstant ? n_constant : 0;
  RecallSettings& r = s.recall;
  VESTIGE_ASSIGN(const int32_t codec, whole_setting(config, "codec"));
  VESTIGE_ASSIGN(const int32_t mode, whole_setting(config, "mode"));
  VESTIGE_ASSIGN(const int32_t rule, whole_setting(config, "rule"));
  VESTIGE_ASSIGN(const int32_t quantile, whole_setting(config, "quantile"));
  VESTIGE_ASSIGN(const int32_t label, whole_setting(config, "label"));
  s.codec = static_cast<Codec>(codec);
  r.mode = static_cast<RecallMode>(mode);
  r.rule = static_cast<RecallRule>(rule);
  r.quantile = static_cast<ZQuantile>(quantile);
  r.hard_only = label == 1;
  VESTIGE_ASSIGN(const int32_t gate, whole_setting(config, "gate"));
  r.entropy_gate = gate == 1;
  if (r.entropy_gate && r.mode == RecallMode::kSound) {
    return invalid_argument(
        "vestige.gate = entropy with mode = sound, want gate = off: a closed head breaks the promise");
  }
  VESTIGE_ASSIGN(s.sketch_rank, whole_setting(config, "sketch_rank"));
  VESTIGE_ASSIGN(r.n_calibrate, whole_setting(config, "n_calibrate"));
  VESTIGE_ASSIGN(r.max_recall, whole_setting(config, "max_recall"));
  VESTIGE_ASSIGN(r.top_j, whole_setting(config, "top_j"));
  VESTIGE_ASSIGN(r.raise_after, whole_setting(config, "raise_after"));
  VESTIGE_ASSIGN(r.n_refit, whole_setting(config, "n_refit"));
  r.margin = static_cast<float>(config.settings.at("margin"));
  r.tau = config.settings.at("tau");
  r.z_max = static_cast<float>(config.settings.at("z_max"));
  return read_code(config, &s);
}

}  // namespace

PolicyInfo vestige_info() {
  return {
      "vestige",
      "keeps the rows whose branch leaves its low-pass, recalls archived rows by their codes",
      "VestigeKV, arXiv:2609.03949v1, Eq. 3 and 4",
      {
          {"bandwidth", 16, 1, 4096, "rFFT bins of a block that count as low-pass, at most block_rows / 2"},
          choice("schedule", {"proportional", "constant"}, "how many rows are kept as the sequence grows"),
          {"n_keep", 1024, 1, 1 << 24, "rows that schedule constant keeps, sinks not counted; no ratio then"},
          choice("codec", {"klt", "sketch"},
                 "index entry of an archived row: transform code with error norms, or the paper's sketch"),
          choice("mode", {"calibrated", "sound", "through"},
                 "bound of a row: fitted to the prompt, certain, or fitted with all other rows attended by their code"),
          choice(
              "rule", {"mass", "max"},
              "a row is recalled if its bound passes log-sum-exp of the attended rows, or the best kept row's score"),
          {"margin", 2, -64, 64, "nats below that mark at which a row is recalled"},
          {"raise_after", 32, -1, 1 << 20,
           "rows that join for a head beyond this many count as attended (rule mass, codec klt); -1 = none does"},
          {"top_j", 0, 0, 1 << 20, "most rows a head may recall in a step, those of highest bound; 0 = any number"},
          {"code_bytes", -1, -1, 1024, "bytes of the code read for every archived row; -1 = 72, in mode through 108"},
          {"refine_bytes", -1, -1, 1024,
           "bytes of the second code, read where the first lets a row pass; 0 = none; -1 = 144, in mode through 0"},
          {"sketch_rank", 64, 1, 1024, "width of the paper's sketch; at most d_content is used"},
          {"n_calibrate", 256, 1, 1024, "last prompt tokens whose queries set the bound's weight z"},
          {"max_recall", 4096, 0, 1 << 24, "rows recalled in a step; more = the whole archive; 0 = no recall"},
          choice("quantile", {"largest", "order"},
                 "z is the largest that a calibration query needed, or the order statistic of tau"),
          choice("label", {"best", "hard"},
                 "queries that calibrate: all that see an archived row, or only those whose best row is archived"),
          {"tau", 0.90, 0.5, 0.999, "share of needed rows that the order statistic wants recalled"},
          {"z_max", 8, 0, 64, "largest z, at most the sound one, and z where there are too few calibration queries"},
          choice("gate", {"off", "entropy"},
                 "heads that look for rows: all, or those whose attention to the kept rows is spread out"),
          {"n_refit", 64, 0, 1 << 20,
           "decode steps after which z is refitted to live queries, then at 2, 4, 8 ... times as many; 0 = never"},
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
