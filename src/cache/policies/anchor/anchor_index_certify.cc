// What a step's output may differ by from exact attention, from the bounds and sketches that the segments hold.

#include <algorithm>
#include <cmath>

#include "backend/ops/norm_grid.h"
#include "cache/key_turn.h"
#include "cache/policies/anchor/anchor_index.h"
#include "cache/policies/anchor/step_bound.h"

namespace vestige::anchor {

namespace {

constexpr int64_t kRun = 256;  // tokens whose angles follow from the first one's

/// One factor of a complex number for each pair.
struct Angles {
  std::vector<double> c, s;
  Angles(const KeyRotation& rotation, int64_t position) {
    for (const float f : rotation.frequencies) {
      c.push_back(std::cos(static_cast<double>(position) * static_cast<double>(f)));
      s.push_back(std::sin(static_cast<double>(position) * static_cast<double>(f)));
    }
  }
  void turn_by(const Angles& step) {
    for (size_t j = 0; j < c.size(); ++j) {
      const double turned = c[j] * step.c[j] - s[j] * step.s[j];
      s[j] = c[j] * step.s[j] + s[j] * step.c[j];
      c[j] = turned;
    }
  }
};

}  // namespace

/// scale q_g . R_u sketch_u of a segment's tokens, [h, n].
std::vector<float> AnchorIndex::sketch_scores(const Segment& segment, const RecallStep& step) const {
  const int64_t n = segment.n(), d = this->d(), h = step.q.dim(1), n_bytes = segment.code.plan.layout.sketch_bytes;
  std::vector<float> out(static_cast<size_t>(h * n), 0.0f), sketch(static_cast<size_t>(kRun * d));
  if (n_bytes == 0) return out;
  const auto n_pairs = static_cast<int64_t>(rotation_.frequencies.size());
  const Angles one(rotation_, 1);
  std::vector<double> x(static_cast<size_t>(d));
  for (int64_t begin = 0; begin < n; begin += kRun) {
    const int64_t count = std::min(kRun, n - begin);
    segment.code.sketch.read(0, begin, count, n, d, n_bytes, sketch.data());
    Angles at(rotation_, segment.first + begin);
    for (int64_t t = 0; t < count; ++t, at.turn_by(one)) {
      std::copy_n(sketch.data() + t * d, d, x.begin());
      for (int64_t j = 0; j < n_pairs; ++j) {
        const TurnedPair pair = turned_pair(rotation_, j);
        const double a = x[static_cast<size_t>(pair.a)], b = x[static_cast<size_t>(pair.b)];
        const double c = at.c[static_cast<size_t>(j)], s = at.s[static_cast<size_t>(j)];
        x[static_cast<size_t>(pair.a)] = a * c - b * s;
        x[static_cast<size_t>(pair.b)] = b * c + a * s;
      }
      for (int64_t g = 0; g < h; ++g) {
        const float* q = step.q.as<float>() + g * 2 * d + d;
        double sum = 0;
        for (int64_t j = 0; j < d; ++j) sum += static_cast<double>(q[j]) * x[static_cast<size_t>(j)];
        out[static_cast<size_t>(g * n + begin + t)] = static_cast<float>(sum * static_cast<double>(step.scale));
      }
    }
  }
  return out;
}

Status AnchorIndex::certify(const RecallStep& step, const CodedPart& part, Stream& stream) const {
  const int64_t h = step.q.dim(1), d = this->d(), n = n_coded();
  const auto size = [](int64_t count) { return static_cast<size_t>(count); };
  std::vector<float> score(size(h * n)), correction(size(h * n)), value(size(n * d)), key_bound, value_bound;
  const std::array<float, 256>& grid = norm_grid();
  int64_t at = 0;
  const float* scores = scores_.data();
  for (const Segment& segment : segments_) {
    const CodedLayer& c = segment.code;
    const int64_t m = segment.n();
    const std::vector<float> of_sketch = sketch_scores(segment, step);
    for (int64_t g = 0; g < h; ++g) {
      std::copy_n(scores + g * m, m, score.begin() + g * n + at);
      std::copy_n(of_sketch.begin() + g * m, m, correction.begin() + g * n + at);
    }
    scores += h * m;
    VESTIGE_TRY(decode_side(c, c.value, 0, {value.data() + at * d, DType::kF32, {m, d}}, stream));
    for (const uint8_t byte : c.key.bound) key_bound.push_back(CodedLayer::kBoundBase * grid[byte]);
    for (const uint8_t byte : c.value.bound) value_bound.push_back(CodedLayer::kBoundBase * grid[byte]);
    at += m;
  }
  for (int64_t g = 0; g < h; ++g) {
    const float* q = step.q.as<float>() + g * 2 * d + d;
    double square = 0;
    for (int64_t j = 0; j < d; ++j) square += static_cast<double>(q[j]) * static_cast<double>(q[j]);
    const CodedStep one = {.score = {score.data() + g * n, size(n)},
                           .correction = {correction.data() + g * n, size(n)},
                           .key_bound = key_bound,
                           .value_bound = value_bound,
                           .value = value,
                           .d = d,
                           .reach = static_cast<double>(step.scale) * std::sqrt(square) * (1 + 1e-9),
                           .coded = part.out.as<float>() + g * d,
                           .coded_lse = part.lse.as<float>()[g],
                           .exact = step.attended.as<float>() + g * d,
                           .exact_lse = step.attended_lse.as<float>()[g]};
    VESTIGE_ASSIGN(const double bound, bound_step(one));
    part.bound.as<float>()[g] = std::nextafter(static_cast<float>(bound), HUGE_VALF);
  }
  return {};
}

}  // namespace vestige::anchor
