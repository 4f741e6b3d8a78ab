#pragma once

// A head of rows coded as bit planes, and float64 attention over what its rows stand for by the words of the contract.

#include <bit>

#include "tests/backend/dense_fixture.h"
#include "tests/backend/planes_cases.h"

namespace vestige::test {

using dense_test::Floats;
using dense_test::numbers;
using Doubles = std::vector<double>;

struct PlaneSideData {
  std::vector<int8_t> basis;
  Floats scale, mean;
  std::vector<int32_t> n_planes;
  std::vector<uint8_t> range;
  PlaneSide view;

  PlaneSideData(const PlaneShape& shape, int64_t d, int64_t n_classes, uint64_t seed) {
    for (float x : numbers(shape.r * d, seed)) basis.push_back(static_cast<int8_t>(std::lround(x * 127)));
    for (float x : numbers(shape.r, seed + 1)) scale.push_back((1.1f + x) / 127);
    mean = numbers(d, seed + 2);
    mean[static_cast<size_t>(d / 2)] = 9;  // keys have such coordinates
    for (int64_t c = 0; c < n_classes; ++c) {
      double width = static_cast<double>(shape.first);
      for (int64_t p = 0; p < 8; ++p, width *= shape.fall + 0.15 * static_cast<double>(c)) {
        const int64_t most = p == 0 ? shape.r : n_planes.back();
        n_planes.push_back(static_cast<int32_t>(std::min(most, std::lround(width))));
      }
    }
    for (float x : numbers(n_classes * shape.r, seed + 3)) range.push_back(static_cast<uint8_t>(150 + 10 * x));
    if (!range.empty()) range[0] = 0;
    view = {.basis = {basis.data(), DType::kU8, {shape.r, d}},
            .basis_scale = {scale.data(), DType::kF32, {shape.r}},
            .mean = {mean.data(), DType::kF32, {d}},
            .n_planes = {n_planes.data(), DType::kI32, {n_classes, 8}},
            .range = {range.data(), DType::kU8, {n_classes, shape.r}}};
  }

  int64_t planes(int64_t c, int64_t p) const { return n_planes[static_cast<size_t>(c * 8 + p)]; }
  int64_t bits(int64_t c) const {
    int64_t n = 0;
    for (int64_t p = 0; p < 8; ++p) n += planes(c, p);
    return n;
  }

  /// What a coefficient's level (an integer of `b` bits) stands for.
  double number(int64_t c, int64_t j, int64_t b, int64_t level) const {
    const uint8_t code = range[static_cast<size_t>(c * view.range.dim(1) + j)];
    if (b == 0 || code == 0) return 0;
    return std::exp2((code - 160) / 8.0) * ((static_cast<double>(level) + 0.5) / std::exp2(b) - 0.5);
  }

  /// Bits and level of coefficient j, read from a row whose bits of this side begin at `at`.
  std::pair<int64_t, int64_t> level(int64_t c, int64_t j, const uint8_t* row, int64_t at) const {
    int64_t b = 0, level = 0;
    for (int64_t p = 0; p < 8 && j < planes(c, p); ++p, ++b) {
      const int64_t bit = at + j;
      level = 2 * level + (row[bit / 8] >> (bit % 8) & 1);
      at += planes(c, p);
    }
    return {b, level};
  }

  Doubles row(int64_t c, const uint8_t* codes, int64_t at) const {
    Doubles x(mean.begin(), mean.end());
    for (size_t j = 0; j < scale.size(); ++j) {
      const auto [b, code] = level(c, static_cast<int64_t>(j), codes, at);
      const double t = number(c, static_cast<int64_t>(j), b, code) * double(scale[j]);
      for (size_t i = 0; i < x.size(); ++i) x[i] += t * basis[j * x.size() + i];
    }
    return x;
  }
};

/// A case's rows and queries, the coefficients that they were coded from, and the exact result.
struct PlanesData {
  PlanesCase c;
  int64_t n_classes;
  PlaneSideData key, value;
  Floats key_coefficients, value_coefficients;  ///< [n, r + 3], [n, r]
  std::vector<int64_t> classes, begin;          ///< of each row: its class, its first byte
  std::vector<uint8_t> row_class, codes;
  std::vector<int32_t> run_start;
  Floats q, frequencies, out, lse;
  PlaneRows rows;

  explicit PlanesData(const PlanesCase& given)
      : c(given),
        n_classes(static_cast<int64_t>(given.shares.size())),
        key(given.key, given.d, n_classes, 11),
        value(given.value, given.d, n_classes, 22) {
    key_coefficients = numbers(c.n * (c.key.r + 3), 5, 0.5f);
    value_coefficients = numbers(c.n * c.value.r, 6, 0.5f);
    q = numbers(c.m * (c.d + 1), 7, 2.0f);
    choose_classes();
    const int64_t n_pairs = c.turn == PlaneTurn::kNo ? 0 : c.turn == PlaneTurn::kPartly ? c.d / 4 : c.d / 2;
    for (int64_t j = 0; j < n_pairs; ++j) {
      frequencies.push_back(static_cast<float>(std::pow(1e4, -double(j) / double(n_pairs))));
    }
    rows = {.key = key.view,
            .value = value.view,
            .row_class = {row_class.data(), DType::kU8, {(c.n + 3) / 4}},
            .run_start = {run_start.data(), DType::kI32, {(c.n + kPlaneRun - 1) / kPlaneRun, n_classes}},
            .codes = {},
            .n_rows = c.n};
    codes = encoded(*dense_test::stream("ref"));
    rows.codes = ConstTensorView(codes.data(), DType::kU8, {static_cast<int64_t>(codes.size())});
    attend();
  }

  std::vector<uint8_t> encoded(Stream& s) const {
    std::vector<uint8_t> bytes(static_cast<size_t>(n_bytes_), 0xa5);
    ConstTensorView keys(key_coefficients.data(), DType::kF32, {c.n, c.key.r});
    keys.stride[0] = c.key.r + 3;
    EXPECT_TRUE(dense_test::ok(ops::encode_planes({.key = keys,
                                                   .value = {value_coefficients.data(), DType::kF32, {c.n, c.value.r}},
                                                   .rows = rows,
                                                   .codes = {bytes.data(), DType::kU8, {n_bytes_}}},
                                                  s)));
    return bytes;
  }

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(c.d)); }

  AttendPlanesParams params(Floats* o, Floats* l) const {
    o->assign(static_cast<size_t>(c.m * c.d), -7.0f);
    l->assign(static_cast<size_t>(c.m), -7.0f);
    AttendPlanesParams p = {.q = {q.data(), DType::kF32, {c.m, c.d}},
                            .rows = rows,
                            .interleaved = c.turn == PlaneTurn::kInterleaved,
                            .first_position = c.first_position,
                            .scale = scale(),
                            .out = {o->data(), DType::kF32, {c.m, c.d}},
                            .lse = {l->data(), DType::kF32, {c.m}}};
    p.q.stride[0] = c.d + 1;
    if (c.turn != PlaneTurn::kNo) {
      p.frequencies = {frequencies.data(), DType::kF32, {static_cast<int64_t>(frequencies.size())}};
    }
    return p;
  }

 private:
  int64_t n_bytes_ = 0;

  void choose_classes() {
    std::vector<int64_t> count(static_cast<size_t>(n_classes), 0);
    row_class.assign(static_cast<size_t>((c.n + 3) / 4), 0);
    const Floats draw = numbers(c.n, 9, 0.5f, 0.5f);
    for (int64_t t = 0; t < c.n; ++t) {
      double left = static_cast<double>(draw[static_cast<size_t>(t)]);
      size_t of = 0;
      while (of + 1 < c.shares.size() && left >= c.shares[of]) left -= c.shares[of++];
      if (t % kPlaneRun == 0) run_start.insert(run_start.end(), count.begin(), count.end());
      row_class[static_cast<size_t>(t / 4)] |= static_cast<uint8_t>(of << (2 * (t % 4)));
      classes.push_back(static_cast<int64_t>(of));
      ++count[of];
    }
    std::vector<int64_t> next;
    for (int64_t of = 0; of < n_classes; ++of) {
      next.push_back(n_bytes_);
      n_bytes_ += count[static_cast<size_t>(of)] * row_bytes(of);
    }
    for (int64_t of : classes) {
      begin.push_back(next[static_cast<size_t>(of)]);
      next[static_cast<size_t>(of)] += row_bytes(of);
    }
  }

  int64_t row_bytes(int64_t of) const { return (key.bits(of) + value.bits(of) + 7) / 8; }

  void attend() {
    std::vector<Doubles> keys, values;
    for (int64_t t = 0; t < c.n; ++t) {
      const int64_t of = classes[static_cast<size_t>(t)];
      const uint8_t* row = codes.data() + begin[static_cast<size_t>(t)];
      keys.push_back(key.row(of, row, 0));
      values.push_back(value.row(of, row, key.bits(of)));
      const size_t n_pairs = frequencies.size(), step = c.turn == PlaneTurn::kInterleaved ? 2 : 1;
      for (size_t j = 0; j < n_pairs; ++j) {
        const double angle = double(c.first_position + t) * double(frequencies[j]);
        double &a = keys.back()[j * step], &b = keys.back()[step == 2 ? 2 * j + 1 : j + n_pairs];
        const double length = std::hypot(a, b), from = std::atan2(b, a);
        a = length * std::cos(from + angle);
        b = length * std::sin(from + angle);
      }
    }
    for (int64_t h = 0; h < c.m; ++h) {
      Doubles result(static_cast<size_t>(c.d), 0.0);
      double total = 0;
      for (size_t t = 0; t < keys.size(); ++t) {
        double s = 0;
        for (size_t i = 0; i < result.size(); ++i) s += double(q[static_cast<size_t>(h * (c.d + 1)) + i]) * keys[t][i];
        const double weight = std::exp(s * double(scale()));  // scores of these cases are small
        total += weight;
        for (size_t i = 0; i < result.size(); ++i) result[i] += weight * values[t][i];
      }
      for (double x : result) out.push_back(static_cast<float>(c.n == 0 ? 0 : x / total));
      lse.push_back(static_cast<float>(std::log(total)));
    }
  }
};

}  // namespace vestige::test
