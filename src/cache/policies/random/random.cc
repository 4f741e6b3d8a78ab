// Sinks and rows drawn at random: the floor below which a selection is worth nothing.

#include "cache/policies/settings.h"

namespace vestige {

namespace {

/// splitmix64, so that a row's draw depends on seed and position alone.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class RandomPolicy final : public ConfiguredPolicy {
 public:
  using ConfiguredPolicy::ConfiguredPolicy;
  Status score_block(const ConstTensorView&, const ConstTensorView&, int64_t first_position, const TensorView& score,
                     Stream&) const override {
    const uint64_t key = mix(config().seed);
    for (int64_t i = 0; i < score.dim(0); ++i) {
      const uint64_t bits = mix(key ^ static_cast<uint64_t>(first_position + i)) >> 40;
      score.as<float>()[i] = static_cast<float>(bits) * 0x1p-24f;
    }
    return {};
  }
};

}  // namespace

PolicyInfo random_info() {
  return {"random", "keeps rows drawn at random from the seed; others are never attended again", "baseline", {}};
}

Result<std::shared_ptr<const CachePolicy>> create_random(const PolicyConfig& config, const RowLayout&) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, random_info()));
  return std::shared_ptr<const CachePolicy>(std::make_shared<RandomPolicy>(std::move(complete)));
}

}  // namespace vestige
