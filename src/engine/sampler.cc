#include "engine/sampler.h"

#include <cmath>

namespace vestige {

namespace {

size_t best(std::span<const float> logits) {
  size_t at = 0;
  for (size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[at] || std::isnan(logits[at])) at = i;
  }
  return at;
}

}  // namespace

int32_t Sampler::pick(std::span<const float> logits) {
  const size_t top = best(logits);
  if (temperature_ <= 0) return static_cast<int32_t>(top);
  weights_.resize(logits.size());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double w = std::exp((static_cast<double>(logits[i]) - static_cast<double>(logits[top])) / temperature_);
    weights_[i] = std::isnan(w) ? 0 : w;
    sum += weights_[i];
  }
  double left = random_.uniform() * sum;
  for (size_t i = 0; i < weights_.size(); ++i) {
    left -= weights_[i];
    if (left < 0 && weights_[i] > 0) return static_cast<int32_t>(i);
  }
  return static_cast<int32_t>(top);  // rounding left nothing to the last token
}

}  // namespace vestige
