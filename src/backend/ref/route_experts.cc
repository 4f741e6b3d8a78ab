#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/ref/load.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

namespace {

constexpr double kDropped = -std::numeric_limits<double>::infinity();

std::vector<double> activate(const float* logits, int64_t e, RouterActivation activation) {
  std::vector<double> score(logits, logits + e);
  if (activation == RouterActivation::kSigmoid) {
    for (double& s : score) s = sigmoid(s);
    return score;
  }
  const double top = *std::max_element(score.begin(), score.end());
  double sum = 0;
  for (double& s : score) sum += (s = std::exp(s - top));
  for (double& s : score) s /= sum;
  return score;
}

// Indices of the n largest, largest first, the lower index first among equals.
std::vector<size_t> largest(const std::vector<double>& x, size_t n) {
  std::vector<size_t> order(x.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x[a] > x[b]; });
  order.resize(n);
  return order;
}

void drop_groups(std::vector<double>& choice, size_t n_groups, size_t n_kept) {
  const size_t size = choice.size() / n_groups;
  std::vector<double> group(n_groups, 0.0);
  for (size_t g = 0; g < n_groups; ++g) {
    const auto begin = choice.begin() + static_cast<std::ptrdiff_t>(g * size);
    const std::vector<double> members(begin, begin + static_cast<std::ptrdiff_t>(size));
    for (size_t i : largest(members, std::min<size_t>(2, size))) group[g] += members[i];
  }
  const std::vector<size_t> kept = largest(group, n_kept);
  for (size_t i = 0; i < choice.size(); ++i) {
    if (std::find(kept.begin(), kept.end(), i / size) == kept.end()) choice[i] = kDropped;
  }
}

}  // namespace

Status route_experts(const RouteExpertsParams& p, Stream&) {
  const int64_t t = p.logits.dim(0), e = p.logits.dim(1), top_k = p.ids.dim(1);
  for (int64_t i = 0; i < t; ++i) {
    const std::vector<double> score = activate(p.logits.as<float>() + i * p.logits.stride[0], e, p.activation);
    std::vector<double> choice = score;
    if (p.bias.data != nullptr) {
      for (int64_t j = 0; j < e; ++j) choice[static_cast<size_t>(j)] += static_cast<double>(p.bias.as<float>()[j]);
    }
    drop_groups(choice, static_cast<size_t>(p.n_groups), static_cast<size_t>(p.topk_group));
    const std::vector<size_t> chosen = largest(choice, static_cast<size_t>(top_k));
    double sum = 0;
    for (size_t j : chosen) sum += score[j];
    const double factor = static_cast<double>(p.scale) / (p.renormalize ? sum + 1e-20 : 1.0);
    for (int64_t j = 0; j < top_k; ++j) {
      p.ids.as<int32_t>()[i * top_k + j] = static_cast<int32_t>(chosen[static_cast<size_t>(j)]);
      p.weights.as<float>()[i * top_k + j] = static_cast<float>(score[chosen[static_cast<size_t>(j)]] * factor);
    }
  }
  return {};
}

}  // namespace vestige::ref
