#include "cache/policies/vestige/code_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <queue>

#include "backend/ops/code_entries.h"

namespace vestige {

namespace {

constexpr int32_t kMaxBits = CodeStage::kMaxBits;
// Squared error and step of the best uniform quantiser of a unit Gaussian, by bits.
constexpr std::array<double, kMaxBits + 1> kDistortion = {1,       0.3634,   0.1188,    0.03744,  0.01154,
                                                          0.00349, 0.001041, 0.0003035, 0.0000869};
constexpr std::array<double, kMaxBits + 1> kStep = {0, 1.596, 0.9957, 0.5860, 0.3352, 0.1881, 0.1041, 0.0569, 0.0308};
constexpr int32_t kWidths[3] = {4, 2, 1};

/// Pieces of 4, 2 and 1 bits that make a code.
std::array<int32_t, 3> pieces_of(int32_t bits) { return {bits / 4, bits % 4 / 2, bits % 2}; }

int32_t units_of(const std::array<int32_t, 3>& pieces) {
  int32_t n = 0;
  for (size_t i = 0; i < 3; ++i) n += (pieces[i] * kWidths[i] + 31) / 32;
  return n;
}

struct Candidate {
  double gain;
  int32_t coord;
  bool operator<(const Candidate& other) const {
    return gain < other.gain || (gain == other.gain && coord > other.coord);
  }
};

double gain(float variance, int32_t bits) {
  return double(variance) * (kDistortion[static_cast<size_t>(bits)] - kDistortion[static_cast<size_t>(bits) + 1]);
}

}  // namespace

CodePlan plan_code(std::span<const float> variance, int32_t code_bytes) {
  CodePlan plan;
  plan.bits.assign(variance.size(), 0);
  plan.step.assign(variance.size(), 0.0f);
  std::array<int32_t, 3> pieces = {};
  std::priority_queue<Candidate> queue;
  for (size_t j = 0; j < variance.size(); ++j) {
    if (variance[j] > 0 && std::isfinite(variance[j])) queue.push({gain(variance[j], 0), static_cast<int32_t>(j)});
  }
  while (!queue.empty()) {
    const Candidate next = queue.top();
    queue.pop();
    int32_t& bits = plan.bits[static_cast<size_t>(next.coord)];
    const auto before = pieces_of(bits), after = pieces_of(bits + 1);
    std::array<int32_t, 3> wanted = pieces;
    for (size_t i = 0; i < 3; ++i) wanted[i] += after[i] - before[i];
    // One bit more may not fit where two would (3 bits are two pieces, 4 are one): this coordinate is done.
    if (4 * units_of(wanted) > code_bytes) continue;
    pieces = wanted;
    if (++bits < kMaxBits) queue.push({gain(variance[static_cast<size_t>(next.coord)], bits), next.coord});
  }
  plan.count_units();
  for (size_t j = 0; j < variance.size(); ++j) {
    plan.step[j] = static_cast<float>(std::sqrt(double(variance[j])) * kStep[static_cast<size_t>(plan.bits[j])]);
  }
  plan.place_entries();
  return plan;
}

void CodePlan::count_units() {
  std::array<int32_t, 3> pieces = {};
  for (const int32_t b : bits) {
    for (size_t i = 0; i < 3; ++i) pieces[i] += pieces_of(b)[i];
  }
  for (size_t i = 0; i < 3; ++i) n_units[i] = (pieces[i] * kWidths[i] + 31) / 32;
}

void CodePlan::place_entries() {
  const int32_t n_entries = 8 * n_units[0] + 16 * n_units[1] + 32 * n_units[2];
  coord.assign(static_cast<size_t>(n_entries), -1);
  shift.assign(static_cast<size_t>(n_entries), 0);
  weight.assign(static_cast<size_t>(n_entries), 0.0f);
  size_t next[3] = {0, static_cast<size_t>(8 * n_units[0]), static_cast<size_t>(8 * n_units[0] + 16 * n_units[1])};
  for (size_t j = 0; j < bits.size(); ++j) {
    int32_t left = bits[j];
    for (size_t i = 0; i < 3; ++i) {
      for (; left >= kWidths[i]; left -= kWidths[i]) {
        const size_t e = next[i]++;
        coord[e] = static_cast<int32_t>(j);
        shift[e] = left - kWidths[i];
        weight[e] = step[j] * static_cast<float>(1 << shift[e]);
      }
    }
  }
}

CodeStage CodePlan::stage() const {
  const auto n = static_cast<int64_t>(coord.size()), d = static_cast<int64_t>(bits.size());
  CodeStage s;
  std::copy_n(n_units, 3, s.n_units);
  s.coord = ConstTensorView(coord.data(), DType::kI32, {n});
  s.shift = ConstTensorView(shift.data(), DType::kI32, {n});
  s.weight = ConstTensorView(weight.data(), DType::kF32, {n});
  s.bits = ConstTensorView(bits.data(), DType::kI32, {d});
  s.step = ConstTensorView(step.data(), DType::kF32, {d});
  s.norm_base = norm_base;
  return s;
}

void tune_steps(CodePlan* plan, std::span<float> sample) {
  constexpr float kFactors[] = {1.0f, 0.8f, 0.9f, 1.1f, 1.25f, 1.45f};
  const size_t d = plan->bits.size(), n = sample.size() / d;
  std::vector<float> column(n);
  for (size_t j = 0; j < d; ++j) {
    const int32_t bits = plan->bits[j];
    if (bits == 0) continue;
    for (size_t i = 0; i < n; ++i) column[i] = sample[i * d + j];
    double least = INFINITY;
    const float gaussian = plan->step[j];
    for (const float factor : kFactors) {
      const float step = gaussian * factor;
      double error = 0;
      for (const float x : column) {
        float value = 0;
        code_of(x, bits, step, &value);
        error += double(x - value) * double(x - value);
      }
      if (error < least) {
        least = error;
        plan->step[j] = step;
      }
    }
    for (size_t i = 0; i < n; ++i) {
      float value = 0;
      code_of(column[i], bits, plan->step[j], &value);
      sample[i * d + j] = column[i] - value;
    }
  }
  plan->place_entries();
}

}  // namespace vestige
