#include "cache/policies/anchor/key_sketch.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/ops/top_eigenvectors.h"

namespace vestige::anchor {

namespace {

constexpr int kMostBits = 8;
constexpr double kUnit = 1.0 / 127;

/// 2^((byte - 128) / 8).
const std::array<float, 256>& gains() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> out = {};
    for (int i = 1; i < 256; ++i) out[static_cast<size_t>(i)] = static_cast<float>(std::exp2((i - 128) / 8.0));
    return out;
  }();
  return table;
}

/// The tables of one head.
struct Tables {
  const int8_t* basis;
  const uint8_t* bits;
  const float* range;
  int64_t r, d;
};

bool is_finite(const float* x, int64_t d) {
  return std::all_of(x, x + d, [](float v) { return std::isfinite(v); });
}

/// [d, d] second moment of the rows that are finite, and how many there are.
std::vector<double> second_moment(std::span<const float> rows, int64_t n, int64_t d, int64_t* n_finite) {
  std::vector<double> moment(static_cast<size_t>(d * d), 0.0);
  *n_finite = 0;
  for (int64_t t = 0; t < n; ++t) {
    const float* x = rows.data() + t * d;
    if (!is_finite(x, d)) continue;
    ++*n_finite;
    for (int64_t i = 0; i < d; ++i) {
      for (int64_t j = 0; j <= i; ++j)
        moment[static_cast<size_t>(i * d + j)] += static_cast<double>(x[i]) * static_cast<double>(x[j]);
    }
  }
  return moment;
}

/// Coefficients of x in the rounded basis, as if it were orthogonal.
void project(const Tables& tables, const float* x, double* z) {
  for (int64_t j = 0; j < tables.r; ++j) {
    double sum = 0, square = 0;
    for (int64_t i = 0; i < tables.d; ++i) {
      const double b = kUnit * tables.basis[j * tables.d + i];
      sum += b * static_cast<double>(x[i]);
      square += b * b;
    }
    z[j] = square > 0 ? sum / square : 0;
  }
}

/// Reverse water-filling: each bit goes where it takes most squared error away.
void share_bits(std::vector<double> variance, int64_t n_bits, uint8_t* bits) {
  for (; n_bits > 0; --n_bits) {
    const auto most = std::max_element(variance.begin(), variance.end());
    if (!(*most > 0)) return;
    uint8_t& b = bits[most - variance.begin()];
    *most = ++b == kMostBits ? 0 : *most / 4;
  }
}

uint32_t code_of(double u, int bits) {
  const double level = std::floor((u + 1) * 0.5 * (1 << bits));
  return static_cast<uint32_t>(std::clamp(level, 0.0, static_cast<double>((1 << bits) - 1)));
}

double level_of(uint32_t code, int bits) { return (2.0 * code + 1) / (1 << bits) - 1; }

/// The gain of the least squared error among those about the size of the coefficients.
uint8_t best_gain(const Tables& tables, const double* z) {
  constexpr double kWidths[] = {1.2, 1.5, 2, 2.5, 3, 4};  // in deviations
  double square = 0, least = 0;
  int64_t count = 0;
  for (int64_t j = 0; j < tables.r; ++j) {
    if (tables.bits[j] == 0) continue;
    square += std::pow(z[j] / static_cast<double>(tables.range[j]), 2);
    least += z[j] * z[j];
    ++count;
  }
  uint8_t best = 0;
  if (count == 0 || !(square > 0)) return best;
  for (const double width : kWidths) {
    const double place = std::round(8 * std::log2(width * std::sqrt(square / static_cast<double>(count)))) + 128;
    const auto byte = static_cast<uint8_t>(std::clamp(place, 1.0, 255.0));
    double error = 0;
    for (int64_t j = 0; j < tables.r; ++j) {
      if (tables.bits[j] == 0) continue;
      const double size = static_cast<double>(gains()[byte] * tables.range[j]);
      error += std::pow(z[j] - size * level_of(code_of(z[j] / size, tables.bits[j]), tables.bits[j]), 2);
    }
    if (error < least) {
      least = error;
      best = byte;
    }
  }
  return best;
}

void put_bits(uint8_t* codes, int64_t at, uint32_t value, int bits) {
  for (int b = 0; b < bits; ++b, ++at) {
    if ((value >> b & 1) != 0) codes[at / 8] = static_cast<uint8_t>(codes[at / 8] | 1u << at % 8);
  }
}

uint32_t get_bits(const uint8_t* codes, int64_t at, int bits) {
  uint32_t value = 0;
  for (int b = 0; b < bits; ++b, ++at) value |= static_cast<uint32_t>(codes[at / 8] >> at % 8 & 1) << b;
  return value;
}

}  // namespace

void KeySketch::resize(int64_t n_heads, int64_t n, int64_t d, int64_t n_bytes) {
  const auto size = [](int64_t count) { return static_cast<size_t>(count); };
  const int64_t r = sketch_rank(d, n_bytes);
  basis.resize(size(n_heads * r * d));
  bits.resize(size(n_heads * r));
  range.resize(size(n_heads * r));
  gain.resize(size(n_bytes > 0 ? n_heads * n : 0));
  codes.resize(size(n_heads * n * n_bytes));
}

int64_t KeySketch::size_bytes() const {
  return static_cast<int64_t>(basis.size() + bits.size() + range.size() * sizeof(float) + gain.size() + codes.size());
}

Status KeySketch::write(int64_t head, std::span<const float> residual, int64_t n, int64_t d, int64_t n_bytes) {
  const int64_t r = sketch_rank(d, n_bytes);
  int64_t n_finite = 0;
  std::vector<double> moment = second_moment(residual, n, d, &n_finite);
  std::vector<float> directions(static_cast<size_t>(r * d));
  VESTIGE_TRY(top_eigenvectors(moment, {directions.data(), DType::kF32, {r, d}}));
  int8_t* levels = basis.data() + head * r * d;
  for (int64_t i = 0; i < r * d; ++i) {
    levels[i] = static_cast<int8_t>(std::lround(127 * std::clamp(directions[static_cast<size_t>(i)], -1.0f, 1.0f)));
  }
  const Tables tables = {levels, bits.data() + head * r, range.data() + head * r, r, d};
  std::vector<double> z(static_cast<size_t>(n * r)), variance(static_cast<size_t>(r), 0.0);
  for (int64_t t = 0; t < n; ++t) {
    if (!is_finite(residual.data() + t * d, d)) continue;
    project(tables, residual.data() + t * d, z.data() + t * r);
    for (int64_t j = 0; j < r; ++j) {
      variance[static_cast<size_t>(j)] +=
          std::pow(z[static_cast<size_t>(t * r + j)], 2) / static_cast<double>(std::max<int64_t>(n_finite, 1));
    }
  }
  for (int64_t j = 0; j < r; ++j) {
    const auto deviation = static_cast<float>(std::sqrt(variance[static_cast<size_t>(j)]));
    const bool usable = std::isnormal(deviation);
    range[static_cast<size_t>(head * r + j)] = usable ? deviation : 0;
    if (!usable) variance[static_cast<size_t>(j)] = 0;
  }
  share_bits(variance, 8 * n_bytes, bits.data() + head * r);
  for (int64_t t = 0; t < n; ++t) {
    const double* of_token = z.data() + t * r;
    const uint8_t byte = best_gain(tables, of_token);
    gain[static_cast<size_t>(head * n + t)] = byte;
    if (byte == 0) continue;
    uint8_t* to = codes.data() + (head * n + t) * n_bytes;
    int64_t at = 0;
    for (int64_t j = 0; j < r; at += tables.bits[j++]) {
      if (tables.bits[j] == 0) continue;
      const double size = static_cast<double>(gains()[byte] * tables.range[j]);
      put_bits(to, at, code_of(of_token[j] / size, tables.bits[j]), tables.bits[j]);
    }
  }
  return {};
}

void KeySketch::read(int64_t head, int64_t first, int64_t count, int64_t n, int64_t d, int64_t n_bytes,
                     float* out) const {
  const int64_t r = sketch_rank(d, n_bytes);
  std::vector<float> wide;
  for (int64_t i = 0; i < r * d; ++i)
    wide.push_back(static_cast<float>(kUnit * basis[static_cast<size_t>(head * r * d + i)]));
  std::fill_n(out, count * d, 0.0f);
  for (int64_t t = 0; t < count; ++t) {
    const uint8_t byte = gain[static_cast<size_t>(head * n + first + t)];
    if (byte == 0) continue;
    const uint8_t* from = codes.data() + (head * n + first + t) * n_bytes;
    float* x = out + t * d;
    int64_t at = 0;
    for (int64_t j = 0; j < r; ++j) {
      const int b = bits[static_cast<size_t>(head * r + j)];
      if (b == 0) continue;
      const double level = level_of(get_bits(from, at, b), b);
      const auto c =
          static_cast<float>(static_cast<double>(gains()[byte] * range[static_cast<size_t>(head * r + j)]) * level);
      const float* direction = wide.data() + j * d;
      for (int64_t i = 0; i < d; ++i) x[i] += c * direction[i];
      at += b;
    }
  }
}

}  // namespace vestige::anchor
