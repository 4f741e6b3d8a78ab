// Sinks and the most recent rows. Source: StreamingLLM, arXiv:2309.17453.

#include "cache/policies/settings.h"

namespace vestige {

namespace {

class StreamingPolicy final : public PositionalPolicy {
 public:
  using PositionalPolicy::PositionalPolicy;
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
