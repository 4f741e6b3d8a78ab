// float64, so that the bytes are those of ref and of every CPU; the transform is n log n. A vector costs about a
// microsecond, once in its life.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/tiles.h"
#include "backend/ops/rotated_code.h"
#include "base/load_number.h"
#include "base/thread_pool.h"

namespace vestige::cpu {

namespace {

constexpr int64_t kRun = 64;  // vectors of one task
constexpr int64_t kMaxWidth = 4096;

void store_scale(const TensorView& out, int64_t i, double scale) {
  float value = static_cast<float>(scale);
  if (static_cast<double>(value) > scale) value = std::nextafter(value, 0.0f);
  if (out.dtype == DType::kF16) {
    out.as<uint16_t>()[i] = f32_to_f16_toward_zero(value);
  } else {
    out.as<float>()[i] = value;
  }
}

void encode(const EncodeRotatedParams& p, int64_t i, double* t) {
  const int64_t d = p.x.dim(1), row_bytes = d * p.bits / 8;
  const Codebook& book = codebook(p.bits);
  uint8_t* row = p.codes.as<uint8_t>() + i * row_bytes;
  std::memset(row, 0, static_cast<size_t>(row_bytes));
  double square = 0;
  for (int64_t j = 0; j < d; ++j) {
    const double value = static_cast<double>(load_number(p.x.data, p.x.dtype, i * p.x.stride[0] + j));
    square += value * value;
    t[j] = rotation_minus(p.seed, j) ? -value : value;
  }
  if (!std::isfinite(square) || square < kLeastSquare) return store_scale(p.scale, i, 0);
  hadamard(t, d);
  const double norm = std::sqrt(square);
  double with_level = 0, levels = 0;
  for (int64_t j = 0; j < d; ++j) {
    const uint32_t code = rotated_code(t[j] / norm, p.bits, book);
    const double level = rotated_level(code, p.bits, book);
    write_code(row, j, p.bits, code);
    with_level += t[j] * level;
    levels += level * level;
  }
  store_scale(p.scale, i, with_level / levels / std::sqrt(static_cast<double>(d)));
}

void decode(const DecodeRotatedParams& p, int64_t i, float* t) {
  const int64_t d = p.x.dim(1), row_bytes = d * p.bits / 8;
  const Codebook& book = codebook(p.bits);
  const uint8_t* row = p.codes.as<uint8_t>() + i * row_bytes;
  for (int64_t j = 0; j < d; ++j) t[j] = static_cast<float>(rotated_level(read_code(row, j, p.bits), p.bits, book));
  hadamard(t, d);
  const double scale =
      static_cast<double>(load_number(p.scale.data, p.scale.dtype, i)) / std::sqrt(static_cast<double>(d));
  float* x = p.x.as<float>() + i * p.x.stride[0];
  for (int64_t j = 0; j < d; ++j) {
    const double value = static_cast<double>(t[j]) * scale;
    x[j] = static_cast<float>(rotation_minus(p.seed, j) ? -value : value);
  }
}

/// Calls row(i, memory) for every row, in runs of fixed size.
template <class T, class Row>
void for_rows(int64_t n, Stream& stream, const Row& row) {
  stream.pool()->run(ceil_div(n, kRun), [&](int64_t run, int32_t) {
    T memory[kMaxWidth];
    for (int64_t i = run * kRun; i < std::min(n, (run + 1) * kRun); ++i) row(i, memory);
  });
}

}  // namespace

Status encode_rotated(const EncodeRotatedParams& p, Stream& stream) {
  for_rows<double>(p.x.dim(0), stream, [&](int64_t i, double* t) { encode(p, i, t); });
  return {};
}

Status decode_rotated(const DecodeRotatedParams& p, Stream& stream) {
  for_rows<float>(p.x.dim(0), stream, [&](int64_t i, float* t) { decode(p, i, t); });
  return {};
}

}  // namespace vestige::cpu
