#include "cache/policies/anchor/cover_anchors.h"

#include <algorithm>
#include <cmath>

#include "base/load_number.h"

namespace vestige::anchor {

namespace {

constexpr int kSteps = 4;        // of k-means: what moves later hardly moves
constexpr int64_t kTile = 1024;  // tokens whose products are added up at a time: they stay in the nearest cache

/// One side of all tokens at length one, column by column, so that sums over coordinates run in order for every token.
class Directions {
 public:
  Directions(const ConstTensorView& x, int64_t n_tokens)
      : n_(n_tokens), d_(x.dim(1)), column_(static_cast<size_t>(n_ * d_)), empty_(static_cast<size_t>(n_)) {
    for (int64_t t = 0; t < n_; ++t) {
      double square = 0;
      for (int64_t j = 0; j < d_; ++j) square += std::pow(number(x, t, j), 2);
      empty_[static_cast<size_t>(t)] = !(square > 0 && std::isfinite(square));
      if (empty_[static_cast<size_t>(t)]) continue;
      for (int64_t j = 0; j < d_; ++j) {
        column_[static_cast<size_t>(j * n_ + t)] = static_cast<float>(number(x, t, j) / std::sqrt(square));
      }
    }
  }

  bool empty(int64_t t) const { return empty_[static_cast<size_t>(t)]; }
  std::vector<float> of(int64_t t) const {
    std::vector<float> unit(static_cast<size_t>(d_));
    add(t, 1, unit.data());
    return unit;
  }
  /// sum += sign times the direction of t
  void add(int64_t t, float sign, float* sum) const {
    for (int64_t j = 0; j < d_; ++j) sum[j] += sign * column_[static_cast<size_t>(j * n_ + t)];
  }
  /// out[t] = <direction of t, y>
  void products(const std::vector<float>& y, std::vector<float>* out) const {
    out->assign(static_cast<size_t>(n_), 0.0f);
    for (int64_t begin = 0; begin < n_; begin += kTile) {
      const int64_t count = std::min(kTile, n_ - begin);
      float* sum = out->data() + begin;
      for (int64_t j = 0; j < d_; ++j) {
        const float* x = column_.data() + j * n_ + begin;
        const float factor = y[static_cast<size_t>(j)];
        for (int64_t i = 0; i < count; ++i) sum[i] += factor * x[i];
      }
    }
  }

 private:
  static double number(const ConstTensorView& x, int64_t t, int64_t j) {
    return static_cast<double>(load_number(x.data, x.dtype, t * x.stride[0] + j));
  }
  int64_t n_, d_;
  std::vector<float> column_;
  std::vector<bool> empty_;
};

struct Sides {
  explicit Sides(const CoverRows& rows)
      : n(rows.key.dim(0)), side{Directions(rows.key, n), Directions(rows.value, n)} {}
  int64_t n;
  Directions side[2];
};

/// Which rows are anchors.
std::vector<bool> marked(const Sides& sides, std::span<const int32_t> given) {
  std::vector<bool> taken(static_cast<size_t>(sides.n), false);
  for (const int32_t a : given) taken[static_cast<size_t>(a)] = true;
  return taken;
}

std::vector<int32_t> farthest(const Sides& sides, int64_t n_coded, std::span<const int32_t> given, int64_t n_more) {
  std::vector<bool> taken = marked(sides, given);
  std::vector<float> nearest[2], product;
  for (int s = 0; s < 2; ++s) {
    for (int64_t t = 0; t < sides.n; ++t) nearest[s].push_back(sides.side[s].empty(t) ? 1.0f : 0.0f);
  }
  const auto cover = [&](int32_t a) {
    for (int s = 0; s < 2; ++s) {
      sides.side[s].products(sides.side[s].of(a), &product);
      for (size_t t = 0; t < product.size(); ++t) nearest[s][t] = std::max(nearest[s][t], std::abs(product[t]));
    }
  };
  for (const int32_t a : given) cover(a);
  std::vector<int32_t> chosen;
  while (static_cast<int64_t>(chosen.size()) < n_more) {
    int32_t best = -1;
    float least = HUGE_VALF;
    for (int64_t t = 0; t < n_coded; ++t) {
      const auto at = static_cast<size_t>(t);
      if (taken[at] || nearest[0][at] + nearest[1][at] >= least) continue;
      least = nearest[0][at] + nearest[1][at];
      best = static_cast<int32_t>(t);
    }
    if (best < 0) break;
    taken[static_cast<size_t>(best)] = true;
    cover(best);
    chosen.push_back(best);
  }
  return chosen;
}

/// Tokens by the anchor that is nearest.
struct Clusters {
  std::vector<int32_t> owner;  ///< [n]
  std::vector<float> sign[2];  ///< [n] of the cosine
};

Clusters nearest_of(const Sides& sides, const std::vector<int32_t>& anchors) {
  const auto n = static_cast<size_t>(sides.n);
  Clusters c = {std::vector<int32_t>(n, 0), {std::vector<float>(n, 1.0f), std::vector<float>(n, 1.0f)}};
  std::vector<float> best(n, -1.0f), product[2];
  for (size_t a = 0; a < anchors.size(); ++a) {
    for (int s = 0; s < 2; ++s) sides.side[s].products(sides.side[s].of(anchors[a]), &product[s]);
    for (size_t t = 0; t < n; ++t) {
      const float both = std::abs(product[0][t]) + std::abs(product[1][t]);
      if (both <= best[t]) continue;  // equal: the earlier anchor
      best[t] = both;
      c.owner[t] = static_cast<int32_t>(a);
      for (int s = 0; s < 2; ++s) c.sign[s][t] = product[s][t] < 0 ? -1.0f : 1.0f;
    }
  }
  return c;
}

}  // namespace

std::vector<int32_t> farthest_rows(const CoverRows& rows, std::span<const int32_t> given, int64_t n_more) {
  return farthest(Sides(rows), rows.n_coded, given, n_more);
}

std::vector<int32_t> central_rows(const CoverRows& rows, std::span<const int32_t> given, int64_t n_more) {
  const Sides sides(rows);
  std::vector<int32_t> anchors(given.begin(), given.end());
  for (const int32_t a : farthest(sides, rows.n_coded, given, n_more)) anchors.push_back(a);
  std::vector<bool> taken = marked(sides, anchors);
  const auto d = static_cast<size_t>(rows.key.dim(1));
  std::vector<float> product[2];
  bool moved = true;
  for (int step = 0; step < kSteps && moved; ++step) {
    moved = false;
    const Clusters c = nearest_of(sides, anchors);
    std::vector<std::vector<int32_t>> members(anchors.size());
    for (int64_t t = 0; t < sides.n; ++t) {
      members[static_cast<size_t>(c.owner[static_cast<size_t>(t)])].push_back(static_cast<int32_t>(t));
    }
    for (size_t a = given.size(); a < anchors.size(); ++a) {
      for (int s = 0; s < 2; ++s) {
        std::vector<float> mean(d, 0.0f);
        double square = 0;
        for (const int32_t t : members[a]) sides.side[s].add(t, c.sign[s][static_cast<size_t>(t)], mean.data());
        for (const float x : mean) square += static_cast<double>(x) * static_cast<double>(x);
        for (float& x : mean) x = square > 0 ? static_cast<float>(static_cast<double>(x) / std::sqrt(square)) : 0.0f;
        sides.side[s].products(mean, &product[s]);
      }
      int32_t best = anchors[a];
      float most = -1;
      for (const int32_t t : members[a]) {
        const auto at = static_cast<size_t>(t);
        const float both = std::abs(product[0][at]) + std::abs(product[1][at]);
        if (t >= rows.n_coded || (taken[at] && t != anchors[a]) || both <= most) continue;
        most = both;
        best = t;
      }
      moved = moved || best != anchors[a];
      taken[static_cast<size_t>(anchors[a])] = false;
      taken[static_cast<size_t>(best)] = true;
      anchors[a] = best;
    }
  }
  return {anchors.begin() + static_cast<int64_t>(given.size()), anchors.end()};
}

}  // namespace vestige::anchor
