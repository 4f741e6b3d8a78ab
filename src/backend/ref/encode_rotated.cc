#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/ops/rotated_code.h"
#include "backend/ref/load.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

namespace {

/// The largest number of the scale's type that is not above `scale`.
void store_scale(const TensorView& out, int64_t i, double scale) {
  if (out.dtype == DType::kF16) {
    // Every f16 is a f32: step down from the nearest one.
    uint16_t bits = f32_to_f16(static_cast<float>(scale));
    while (static_cast<double>(f16_to_f32(bits)) > scale || bits >= 0x7c00u) --bits;
    out.as<uint16_t>()[i] = bits;
    return;
  }
  float value = static_cast<float>(scale);
  if (static_cast<double>(value) > scale) value = std::nextafter(value, 0.0f);
  out.as<float>()[i] = value;
}

}  // namespace

// By the definition: the Hadamard matrix entry by entry, float64 throughout.
Status encode_rotated(const EncodeRotatedParams& p, Stream&) {
  const int64_t n = p.x.dim(0), d = p.x.dim(1), row_bytes = d * p.bits / 8;
  const Codebook& book = codebook(p.bits);
  std::vector<double> x(static_cast<size_t>(d)), t(static_cast<size_t>(d));
  for (int64_t i = 0; i < n; ++i) {
    uint8_t* row = p.codes.as<uint8_t>() + i * row_bytes;
    std::memset(row, 0, static_cast<size_t>(row_bytes));
    double square = 0;
    for (int64_t j = 0; j < d; ++j) {
      const double value = static_cast<double>(load(p.x.data, p.x.dtype, i * p.x.stride[0] + j));
      square += value * value;
      x[static_cast<size_t>(j)] = rotation_minus(p.seed, j) ? -value : value;
    }
    if (!std::isfinite(square) || square < kLeastSquare) {
      store_scale(p.scale, i, 0);
      continue;
    }
    double with_level = 0, levels = 0;
    for (int64_t r = 0; r < d; ++r) {
      double sum = 0;
      for (int64_t j = 0; j < d; ++j) {
        const bool minus = std::popcount(static_cast<uint64_t>(r & j)) % 2 == 1;
        sum += minus ? -x[static_cast<size_t>(j)] : x[static_cast<size_t>(j)];
      }
      // rms(t) = ||x|| / sqrt(d), t = sum / sqrt(d).
      const uint32_t code = rotated_code(sum / std::sqrt(square), p.bits, book);
      const double level = rotated_level(code, p.bits, book);
      write_code(row, r, p.bits, code);
      with_level += sum / std::sqrt(static_cast<double>(d)) * level;
      levels += level * level;
    }
    store_scale(p.scale, i, with_level / levels);
  }
  return {};
}

Status decode_rotated(const DecodeRotatedParams& p, Stream&) {
  const int64_t n = p.x.dim(0), d = p.x.dim(1), row_bytes = d * p.bits / 8;
  const Codebook& book = codebook(p.bits);
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t* row = p.codes.as<uint8_t>() + i * row_bytes;
    const double scale = static_cast<double>(load(p.scale.data, p.scale.dtype, i)) / std::sqrt(static_cast<double>(d));
    for (int64_t j = 0; j < d; ++j) {
      double sum = 0;
      for (int64_t r = 0; r < d; ++r) {
        const bool minus = std::popcount(static_cast<uint64_t>(r & j)) % 2 == 1;
        const double level = rotated_level(read_code(row, r, p.bits), p.bits, book);
        sum += minus ? -level : level;
      }
      p.x.as<float>()[i * p.x.stride[0] + j] = static_cast<float>((rotation_minus(p.seed, j) ? -sum : sum) * scale);
    }
  }
  return {};
}

}  // namespace vestige::ref
