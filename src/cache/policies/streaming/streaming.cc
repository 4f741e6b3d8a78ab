// Sinks and the most recent rows. Source: StreamingLLM, arXiv:2309.17453.

#include "cache/policies/settings.h"

namespace vestige {

namespace {

class StreamingPolicy final : public ConfiguredPolicy {
 public:
  using ConfiguredPolicy::ConfiguredPolicy;
  /// The position, which float32 counts exactly up to 2^24 rows.
  Status score_block(const ConstTensorView&, const ConstTensorView&, int64_t first_position, const TensorView& score,
                     Stream&) const override {
    for (int64_t i = 0; i < score.dim(0); ++i) score.as<float>()[i] = static_cast<float>(first_position + i);
    return {};
  }
};

}  // namespace

PolicyInfo streaming_info() {
  return {"streaming",
          "keeps the first and the most recent rows; others are never attended again",
          "StreamingLLM, arXiv:2309.17453",
          {}};
}

Result<std::shared_ptr<const CachePolicy>> create_streaming(const PolicyConfig& config, const RowLayout&) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, streaming_info()));
  return std::shared_ptr<const CachePolicy>(std::make_shared<StreamingPolicy>(std::move(complete)));
}

}  // namespace vestige
