#include <cmath>
#include <limits>
#include <vector>

#include "backend/ops/anchored_side.h"
#include "backend/ops/gamma_code.h"
#include "backend/ops/rotated_code.h"
#include "backend/ref/load.h"
#include "backend/ref/ref_ops.h"
#include "backend/ref/turn_to_position.h"

namespace vestige::ref {

namespace {

using Vector = std::vector<double>;

/// Levels of a residual times its scale, in the rotated basis.
Vector rotated_residual(const AnchoredSide& side, int64_t row, int64_t d, int32_t bits) {
  Vector t(static_cast<size_t>(d));
  const double scale = static_cast<double>(load(side.scale.data, side.scale.dtype, row));
  const uint8_t* codes = side.codes.as<uint8_t>() + row * (d * bits / 8);
  for (int64_t j = 0; j < d; ++j) {
    t[static_cast<size_t>(j)] = scale * rotated_level(read_code(codes, j, bits), bits, codebook(bits));
  }
  return t;
}

/// Back from the rotated basis.
void turn_back(Vector& t, uint64_t seed) {
  const auto d = static_cast<int64_t>(t.size());
  hadamard(t.data(), d);
  for (int64_t j = 0; j < d; ++j) {
    t[static_cast<size_t>(j)] *= (rotation_minus(seed, j) ? -1.0 : 1.0) / std::sqrt(static_cast<double>(d));
  }
}

/// scale q . R_t key_t of every token, [m][n].
std::vector<Vector> all_scores(const AttendAnchoredParams& p, int64_t head) {
  const AnchoredSide& key = p.heads[static_cast<size_t>(head)].key;
  const int64_t m = p.q.dim(1), d = p.q.dim(2), n = key.gamma.dim(0);
  std::vector<Vector> scores(static_cast<size_t>(m), Vector(static_cast<size_t>(n)));
  for (int64_t t = 0; t < n; ++t) {
    Vector x(static_cast<size_t>(d), 0.0);
    const int64_t row = residual_row(key, t);
    if (row >= 0) {
      x = rotated_residual(key, row, d, p.bits);
      turn_back(x, p.seed);
    }
    const double gamma = static_cast<double>(load_gamma(key.gamma, t));
    const int64_t anchor = load_index(key.index, t) * d;
    for (int64_t j = 0; j < d; ++j) {
      x[static_cast<size_t>(j)] += gamma * static_cast<double>(load(key.anchors.data, key.anchors.dtype, anchor + j));
    }
    turn_to_position(p.frequencies, p.interleaved, p.positions.data != nullptr ? p.positions.as<int32_t>()[t] : t, &x);
    for (int64_t i = 0; i < m; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < d; ++j) {
        sum += static_cast<double>(p.q.as<float>()[(head * m + i) * d + j]) * x[static_cast<size_t>(j)];
      }
      scores[static_cast<size_t>(i)][static_cast<size_t>(t)] = sum * static_cast<double>(p.scale);
    }
  }
  return scores;
}

/// sum weight_t value_t: by anchor, and in the rotated basis.
Vector weighted_values(const AttendAnchoredParams& p, int64_t head, const Vector& weight) {
  const AnchoredSide& value = p.heads[static_cast<size_t>(head)].value;
  const int64_t d = p.q.dim(2), k = value.anchors.dim(0);
  Vector by_anchor(static_cast<size_t>(k), 0.0), out(static_cast<size_t>(d), 0.0);
  for (size_t t = 0; t < weight.size(); ++t) {
    const auto at = static_cast<int64_t>(t);
    by_anchor[static_cast<size_t>(load_index(value.index, at))] +=
        weight[t] * static_cast<double>(load_gamma(value.gamma, at));
    const int64_t row = residual_row(value, at);
    if (row < 0) continue;
    const Vector residual = rotated_residual(value, row, d, p.bits);
    for (size_t j = 0; j < out.size(); ++j) out[j] += weight[t] * residual[j];
  }
  turn_back(out, p.seed);
  for (int64_t a = 0; a < k; ++a) {
    for (int64_t j = 0; j < d; ++j) {
      out[static_cast<size_t>(j)] += by_anchor[static_cast<size_t>(a)] *
                                     static_cast<double>(load(value.anchors.data, value.anchors.dtype, a * d + j));
    }
  }
  return out;
}

}  // namespace

Status attend_anchored(const AttendAnchoredParams& p, Stream&) {
  const int64_t m = p.q.dim(1), d = p.q.dim(2), n = p.heads[0].key.gamma.dim(0);
  for (int64_t head = 0; head < p.q.dim(0); ++head) {
    std::vector<Vector> scores = all_scores(p, head);
    for (int64_t i = 0; i < m; ++i) {
      Vector& s = scores[static_cast<size_t>(i)];
      const int64_t row = head * m + i;
      double top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (double v : s) top = std::max(top, v);
      for (size_t t = 0; t < s.size(); ++t) {
        if (p.scores.data != nullptr) {
          p.scores.as<float>()[row * n + static_cast<int64_t>(t)] = static_cast<float>(s[t]);
        }
        s[t] = std::exp(s[t] - top);
        sum += s[t];
      }
      for (double& v : s) v /= sum;
      const Vector out = weighted_values(p, head, s);
      for (int64_t j = 0; j < d; ++j) {
        p.out.as<float>()[row * d + j] = static_cast<float>(out[static_cast<size_t>(j)]);
      }
      p.lse.as<float>()[row] =
          n == 0 ? -std::numeric_limits<float>::infinity() : static_cast<float>(top + std::log(sum));
    }
  }
  return {};
}

}  // namespace vestige::ref
