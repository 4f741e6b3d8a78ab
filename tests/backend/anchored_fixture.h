#pragma once

// Random coded heads, and what their tokens stand for, in float64.

#include <algorithm>
#include <memory>
#include <random>

#include "backend/ops/gamma_code.h"
#include "tests/backend/anchored_cases.h"
#include "tests/backend/dense_fixture.h"

namespace vestige::test {

using dense_test::Floats;
using dense_test::numbers;
using dense_test::stored;
using Doubles = std::vector<double>;

/// One side of a head, with its memory.
struct SideData {
  std::vector<std::byte> anchors, gamma, scale;
  std::vector<uint8_t> index, codes;
  std::vector<int64_t> mask;
  std::vector<int32_t> prefix;
  Doubles dense;  ///< [n, d]: what the tokens stand for, not turned
  AnchoredSide view;
};

inline constexpr uint64_t kRotationSeed = 9;

inline std::unique_ptr<SideData> make_side(const AttendAnchoredCase& c, uint64_t seed) {
  auto s = std::make_unique<SideData>();
  std::mt19937_64 rng(seed);
  const int64_t n_words = (c.n + 63) / 64, index_bytes = c.lean ? 1 : 2;
  const Floats anchors = numbers(c.k * c.d, seed, 1.5f), gammas = numbers(c.n, seed + 1, 0.7f, 0.5f);
  s->anchors = stored(anchors, DType::kBF16);
  s->index.resize(static_cast<size_t>(c.n * index_bytes));
  s->mask.assign(static_cast<size_t>(n_words), 0);
  s->prefix.assign(static_cast<size_t>(n_words), 0);
  std::vector<int64_t> repaired;
  for (int64_t t = 0; t < c.n; ++t) {
    const uint64_t a = rng() % static_cast<uint64_t>(c.k);
    for (int64_t b = 0; b < index_bytes; ++b) {
      s->index[static_cast<size_t>(t * index_bytes + b)] = static_cast<uint8_t>(a >> (8 * b));
    }
    if (t % 64 == 0) s->prefix[static_cast<size_t>(t / 64)] = static_cast<int32_t>(repaired.size());
    if (double(rng() % 1000) >= 1000 * c.share) continue;
    s->mask[static_cast<size_t>(t / 64)] |= static_cast<int64_t>(uint64_t{1} << (t % 64));
    repaired.push_back(t);
  }
  if (c.lean) {
    for (float g : gammas) s->gamma.push_back(static_cast<std::byte>(gamma_code(g)));
  } else {
    s->gamma = stored(gammas, DType::kBF16);
  }
  const auto n_residuals = static_cast<int64_t>(repaired.size());
  const DType scale_dtype = c.lean ? DType::kF16 : DType::kF32;
  s->scale = stored(numbers(n_residuals, seed + 2, 0.2f, 0.3f), scale_dtype);
  s->codes.resize(static_cast<size_t>(n_residuals * c.d * c.bits / 8));
  for (uint8_t& byte : s->codes) byte = static_cast<uint8_t>(rng());
  s->view = {.anchors = {s->anchors.data(), DType::kBF16, {c.k, c.d}},
             .index = {s->index.data(), DType::kU8, {c.n, index_bytes}},
             .gamma = {s->gamma.data(), c.lean ? DType::kU8 : DType::kBF16, {c.n}},
             .mask = {s->mask.data(), DType::kI64, {n_words}},
             .prefix = {s->prefix.data(), DType::kI32, {n_words}},
             .codes = {s->codes.data(), DType::kU8, {n_residuals, c.d * c.bits / 8}},
             .scale = {s->scale.data(), scale_dtype, {n_residuals}}};
  Floats residual(static_cast<size_t>(n_residuals * c.d));
  EXPECT_TRUE(dense_test::ok(ops::decode_rotated({.codes = s->view.codes,
                                                  .scale = s->view.scale,
                                                  .bits = c.bits,
                                                  .seed = kRotationSeed,
                                                  .x = {residual.data(), DType::kF32, {n_residuals, c.d}}},
                                                 *dense_test::stream("ref"))));
  s->dense.resize(static_cast<size_t>(c.n * c.d));
  for (int64_t t = 0; t < c.n; ++t) {
    const auto found = std::find(repaired.begin(), repaired.end(), t);
    for (int64_t j = 0; j < c.d; ++j) {
      const float anchor = load_number(s->anchors.data(), DType::kBF16, load_index(s->view.index, t) * c.d + j);
      double& x = s->dense[static_cast<size_t>(t * c.d + j)];
      x = static_cast<double>(load_gamma(s->view.gamma, t)) * static_cast<double>(anchor);
      if (found == repaired.end()) continue;
      x += static_cast<double>(residual[static_cast<size_t>((found - repaired.begin()) * c.d + j)]);
    }
  }
  return s;
}

/// A case's heads, queries and positions, and its exact result.
struct AnchoredData {
  AttendAnchoredCase c;
  std::vector<std::unique_ptr<SideData>> sides;  ///< keys and values of each head
  std::vector<AnchoredHead> heads;
  Floats q, frequencies;
  std::vector<int32_t> positions;
  Doubles out, lse;

  explicit AnchoredData(const AttendAnchoredCase& given) : c(given) {
    q = numbers(c.n_heads * c.m * c.d, 3);
    const int64_t n_pairs = c.turned == Turned::kNo ? 0 : c.turned == Turned::kPartly ? c.d / 4 : c.d / 2;
    for (int64_t j = 0; j < n_pairs; ++j)
      frequencies.push_back(static_cast<float>(std::pow(1e4, -double(j) / double(n_pairs))));
    for (int64_t t = 0; t < c.n; ++t) positions.push_back(static_cast<int32_t>(c.positions ? 3 * t + 5 : t));
    for (int64_t h = 0; h < c.n_heads; ++h) {
      sides.push_back(make_side(c, 100 + static_cast<uint64_t>(h)));
      sides.push_back(make_side(c, 200 + static_cast<uint64_t>(h)));
      heads.push_back({sides[static_cast<size_t>(2 * h)]->view, sides[static_cast<size_t>(2 * h + 1)]->view});
      for (int64_t i = 0; i < c.m; ++i) attend(h, i);
    }
  }

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(c.d)); }
  bool interleaved() const { return c.turned == Turned::kInterleaved; }

  AttendAnchoredParams params(Floats* o, Floats* l, Floats* scores = nullptr) const {
    o->assign(static_cast<size_t>(c.n_heads * c.m * c.d), -7.0f);
    l->assign(static_cast<size_t>(c.n_heads * c.m), -7.0f);
    AttendAnchoredParams p = {.q = {q.data(), DType::kF32, {c.n_heads, c.m, c.d}},
                              .heads = heads,
                              .bits = c.bits,
                              .seed = kRotationSeed,
                              .interleaved = interleaved(),
                              .scale = scale(),
                              .out = {o->data(), DType::kF32, {c.n_heads, c.m, c.d}},
                              .lse = {l->data(), DType::kF32, {c.n_heads, c.m}}};
    if (c.turned != Turned::kNo) {
      p.frequencies = {frequencies.data(), DType::kF32, {static_cast<int64_t>(frequencies.size())}};
    }
    if (c.positions) p.positions = {positions.data(), DType::kI32, {c.n}};
    if (scores != nullptr) {
      scores->resize(static_cast<size_t>(c.n_heads * c.m * c.n));
      p.scores = {scores->data(), DType::kF32, {c.n_heads, c.m, c.n}};
    }
    return p;
  }

 private:
  /// Dense attention over what the tokens stand for.
  void attend(int64_t h, int64_t i) {
    const Doubles &keys = sides[static_cast<size_t>(2 * h)]->dense,
                  &values = sides[static_cast<size_t>(2 * h + 1)]->dense;
    Doubles s, result(static_cast<size_t>(c.d), 0.0);
    for (int64_t t = 0; t < c.n; ++t) {
      Doubles x(keys.begin() + t * c.d, keys.begin() + (t + 1) * c.d);
      const size_t n_pairs = frequencies.size(), step = interleaved() ? 2 : 1, apart = interleaved() ? 1 : n_pairs;
      for (size_t j = 0; j < n_pairs; ++j) {
        const double angle = double(positions[static_cast<size_t>(t)]) * double(frequencies[j]);
        const double a = x[j * step], b = x[j * step + apart];
        x[j * step] = a * std::cos(angle) - b * std::sin(angle);
        x[j * step + apart] = a * std::sin(angle) + b * std::cos(angle);
      }
      double sum = 0;
      for (int64_t j = 0; j < c.d; ++j)
        sum += double(q[static_cast<size_t>((h * c.m + i) * c.d + j)]) * x[static_cast<size_t>(j)];
      s.push_back(sum * double(scale()));
    }
    double total = 0, top = -INFINITY;
    for (double v : s) top = std::max(top, v);
    for (double v : s) total += std::exp(v - top);
    for (int64_t t = 0; t < c.n; ++t) {
      const double w = std::exp(s[static_cast<size_t>(t)] - top) / total;
      for (int64_t j = 0; j < c.d; ++j) result[static_cast<size_t>(j)] += w * values[static_cast<size_t>(t * c.d + j)];
    }
    out.insert(out.end(), result.begin(), result.end());
    lse.push_back(c.n == 0 ? -INFINITY : top + std::log(total));
  }
};

}  // namespace vestige::test
