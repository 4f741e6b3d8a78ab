#pragma once

// The transform code of rows as an index codec: fit, encode, scan, and the z that calibration queries need.

#include <cstring>
#include <utility>

#include "cache/policies/vestige/code_plan.h"
#include "cache/policies/vestige/index_codec.h"

namespace vestige {

class RowCodec final : public IndexCodec {
 public:
  RowCodec(const RowLayout& layout, int32_t block_rows, const RowCodecSettings& settings)
      : layout_(layout), block_rows_(block_rows), settings_(settings) {}

  Status fit(const RecallFit& fit, Stream& stream) override;
  bool ready() const override { return state_.n_groups > 0; }
  /// The step's own query stands in for the prompt's.
  Status provisional(const RecallStep& step, Stream& stream) override;
  Status extend(const RowPages& rows, int64_t n_closed, Stream& stream) override {
    return ready() ? add_rows(rows, n_closed, &state_, stream) : Status();
  }
  int64_t n_indexed() const override { return state_.n_indexed; }
  Status scan(const CodecScan& scan, Stream& stream) override;
  bool has_values() const override { return settings_.values; }
  Status attend(const RecallStep& step, const CodedPart& part, Stream& stream) override;
  float max_content_norm() const override { return state_.max_norm[1]; }
  int32_t n_stages() const override { return settings_.refine_bytes > 0 ? 2 : 1; }
  float sound_z() const override { return 1.0f; }
  Result<std::vector<std::vector<float>>> needed_z(const CodecQueries& queries, Stream& stream) const override;
  int64_t row_bytes(int32_t stage) const override;
  int64_t size_bytes() const override;
  Status save(const std::string& prefix, TensorSink& sink) const override;
  Status load(const std::string& prefix, const TensorSource& source, int64_t n_closed) override;

 private:
  /// Built aside and moved in when whole.
  struct State {
    int64_t n_groups = 0, rank = 0;
    const float* transform = nullptr;  // mean, forward, dual, metric, white, ridge; own memory or a file's
    std::vector<CodePlan> plans;
    float value_base = 1.0f;
    float max_norm[2] = {0, 0};
    std::vector<const void*> codes[2], value_norm;  // page tables, one entry a block
    std::vector<Buffer> owned;
    int64_t n_indexed = 0;
  };
  int64_t d() const { return layout_.d_row(); }
  static int64_t transform_floats(int64_t d, int64_t n_groups, int64_t rank);
  RowTransform transform_view(const State& state) const;
  Status allocate_transform(State* state) const;
  Status drop_empty_ranks(State* state) const;
  Status plan_stages(std::span<const float> rows, std::vector<float> variance, State* state, Stream& stream) const;
  Status fit_state(const RecallFit& fit, State* state, Stream& stream) const;
  float norm_base(const State& state, std::span<const float> left) const;
  float value_base(const State& state, std::span<const float> left) const;
  Status add_rows(const RowPages& rows, int64_t n_closed, State* state, Stream& stream) const;
  std::vector<CodeStage> stages(const State& state) const;
  CodeSet code_set(const RecallStep& step, std::span<const CodeStage> stages) const;

  RowLayout layout_;
  int64_t block_rows_;
  RowCodecSettings settings_;
  State state_;
};

}  // namespace vestige
