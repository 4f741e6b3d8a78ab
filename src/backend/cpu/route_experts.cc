#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/scratch.h"
#include "base/thread_pool.h"

namespace vestige::cpu {

namespace {

constexpr float kTaken = -std::numeric_limits<float>::infinity();

void activate(const float* logits, int64_t e, RouterActivation activation, float* score) {
  if (activation == RouterActivation::kSigmoid) {
    for (int64_t j = 0; j < e; ++j) score[j] = 1.0f / (1.0f + std::exp(-logits[j]));
    return;
  }
  const float top = *std::max_element(logits, logits + e);
  float sum = 0;
  for (int64_t j = 0; j < e; ++j) sum += score[j] = std::exp(logits[j] - top);
  for (int64_t j = 0; j < e; ++j) score[j] /= sum;
}

// Leaves -inf in the choice of every expert outside the topk_group groups of the largest sum of two.
void drop_groups(const RouteExpertsParams& p, int64_t e, float* choice, float* group) {
  const int64_t size = e / p.n_groups;
  for (int64_t g = 0; g < p.n_groups; ++g) {
    float first = kTaken, second = kTaken;
    for (int64_t j = g * size; j < (g + 1) * size; ++j) {
      second = std::max(second, std::min(first, choice[j]));
      first = std::max(first, choice[j]);
    }
    group[g] = size == 1 ? first : first + second;
  }
  for (int32_t n = p.n_groups - p.topk_group; n > 0; --n) {
    // The smallest goes; among equals the one of the highest index.
    int64_t worst = -1;
    for (int64_t g = 0; g < p.n_groups; ++g) {
      if (!std::isnan(group[g]) && (worst < 0 || group[g] <= group[worst])) worst = g;
    }
    if (worst < 0) return;
    group[worst] = std::numeric_limits<float>::quiet_NaN();  // marks a dropped group
    std::fill_n(choice + worst * size, size, kTaken);
  }
}

void route_token(const RouteExpertsParams& p, int64_t i, float* scratch) {
  const int64_t e = p.logits.dim(1), top_k = p.ids.dim(1);
  float* score = scratch;
  float* choice = scratch + e;
  activate(p.logits.as<float>() + i * p.logits.stride[0], e, p.activation, score);
  for (int64_t j = 0; j < e; ++j) choice[j] = score[j] + (p.bias.data == nullptr ? 0.0f : p.bias.as<float>()[j]);
  if (p.topk_group < p.n_groups) drop_groups(p, e, choice, scratch + 2 * e);
  int32_t* ids = p.ids.as<int32_t>() + i * top_k;
  float* weights = p.weights.as<float>() + i * top_k;
  float sum = 0;
  for (int64_t r = 0; r < top_k; ++r) {
    const int64_t best = std::max_element(choice, choice + e) - choice;  // the first of equals
    choice[best] = kTaken;
    ids[r] = static_cast<int32_t>(best);
    weights[r] = score[best];
    sum += score[best];
  }
  const float factor = p.renormalize ? p.scale / (sum + 1e-20f) : p.scale;
  for (int64_t r = 0; r < top_k; ++r) weights[r] *= factor;
}

}  // namespace

Status route_experts(const RouteExpertsParams& p, Stream& stream) {
  const int64_t t = p.logits.dim(0);
  const int64_t each = line_floats(2 * p.logits.dim(1) + p.n_groups);
  VESTIGE_ASSIGN(float* const scratch, scratch_floats(ScratchSlot::kOp, each * stream.n_threads()));
  constexpr int64_t kTokens = 16;
  stream.pool()->run((t + kTokens - 1) / kTokens, [&](int64_t piece, int32_t thread) {
    for (int64_t i = piece * kTokens; i < std::min(t, (piece + 1) * kTokens); ++i) {
      route_token(p, i, scratch + each * thread);
    }
  });
  return {};
}

}  // namespace vestige::cpu
