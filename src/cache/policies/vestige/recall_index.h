#pragma once

// Which archived rows join a step: a codec's bound against a head's threshold, and the z that makes the bound.
// Source: arXiv:2609.03949v1, Eq. 4 and section on calibration; modes and rules: docs/policies/vestige.md.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/policies/vestige/entropy_gate.h"
#include "cache/policies/vestige/index_codec.h"
#include "cache/policies/vestige/query_window.h"

namespace vestige {

enum class RecallMode : uint8_t { kCalibrated, kSound, kThrough };
enum class RecallRule : uint8_t { kMass, kMax };
enum class ZQuantile : uint8_t { kLargest, kOrder };

struct RecallSettings {
  RecallMode mode = RecallMode::kCalibrated;
  RecallRule rule = RecallRule::kMass;
  float margin = 2.0f;       ///< nats below the threshold's own mark that still fire
  int32_t raise_after = 32;  ///< rule mass: rows of a head beyond these raise its threshold as they join; -1 = none
  int32_t top_j = 0;
  int32_t n_calibrate = 256;  ///< tokens
  int32_t max_recall = 4096;  ///< rows
  ZQuantile quantile = ZQuantile::kLargest;
  bool hard_only = false;
  bool entropy_gate = false;  ///< not in mode sound
  double tau = 0.90;
  float z_max = 8.0f;    ///< of z; no more than the codec's sound_z
  int32_t n_refit = 64;  ///< decode steps to the first refit of z, doubling; 0 = never
};

/// Until fit() the index is empty, and recall() builds a provisional one, with z at its largest.
class VestigeIndex final : public RecallIndex {
 public:
  VestigeIndex(const RecallSettings& settings, std::unique_ptr<IndexCodec> codec);

  Status fit(const RecallFit& fit, Stream& stream) override;
  Status extend(const RowPages& rows, int64_t n_closed, Stream& stream) override;
  Status recall(const RecallStep& step, Stream& stream) override;
  bool attends_codes() const override { return settings_.mode == RecallMode::kThrough; }
  Status attend_codes(const RecallStep& step, const CodedPart& part, Stream& stream) override;
  float max_content_norm() const override { return codec_->max_content_norm(); }
  int64_t max_recall() const override { return settings_.max_recall; }
  int64_t size_bytes() const override { return codec_->size_bytes(); }
  int64_t scan_bytes(int64_t n_closed) const override;
  int64_t second_bytes() const override { return codec_->n_stages() > 1 ? codec_->row_bytes(1) : 0; }
  Status save(const std::string& prefix, TensorSink& sink) const override;
  Status load(const std::string& prefix, const TensorSource& source, int64_t n_closed) override;

 private:
  float largest_z() const;
  /// z of each stage from `samples`, [stage][sample].
  void set_z(std::vector<std::vector<float>> samples);
  Status calibrate(const RecallFit& fit, Stream& stream);
  /// More queries into the samples of z and of the gate.
  Status learn(const CodecQueries& queries, Stream& stream);
  /// Every so many steps: the latest queries join the calibration sample.
  Status refit(const RecallStep& step, Stream& stream);
  Status load_window(const std::string& prefix, const TensorSource& source);

  RecallSettings settings_;
  std::unique_ptr<IndexCodec> codec_;
  float z_[2];
  std::vector<std::vector<float>> samples_;  ///< z wanted so far, by stage
  EntropyGate gate_;
  QueryWindow window_;            ///< of the latest steps
  std::vector<float> threshold_;  ///< [h]
  std::vector<uint8_t> open_;     ///< [h]
};

}  // namespace vestige
