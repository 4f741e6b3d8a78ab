#include "cache/policies/kivi/group_quantiser.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"

namespace vestige::kivi {

namespace {

/// n numbers that share a scale: number i lies i * stride behind the first, its code is number first + i * code_stride
/// of an array.
struct Line {
  int64_t n, stride, first, code_stride;
};

double load_f16(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return double(f16_to_f32(bits));
}

double store_f16(uint8_t* p, double x) {
  const uint16_t bits = f32_to_f16(static_cast<float>(x));
  std::memcpy(p, &bits, sizeof bits);
  return double(f16_to_f32(bits));
}

/// @param codes zero before. @return whether fp16 holds least and scale
bool encode_line(const float* x, const Line& line, int32_t bits, uint8_t* least, uint8_t* scale, uint8_t* codes) {
  float low = x[0], high = x[0];
  for (int64_t i = 1; i < line.n; ++i) {
    low = std::min(low, x[i * line.stride]);
    high = std::max(high, x[i * line.stride]);
  }
  const double top = (1 << bits) - 1;
  const double from = store_f16(least, double(low)), step = store_f16(scale, (double(high) - double(low)) / top);
  if (!std::isfinite(from) || !std::isfinite(step)) return false;
  for (int64_t i = 0; i < line.n && step > 0; ++i) {
    const double code = std::clamp(std::floor((double(x[i * line.stride]) - from) / step + 0.5), 0.0, top);
    const int64_t bit = (line.first + i * line.code_stride) * bits;
    codes[bit / 8] = static_cast<uint8_t>(codes[bit / 8] | static_cast<int32_t>(code) << (bit % 8));
  }
  return true;
}

void decode_line(const uint8_t* least, const uint8_t* scale, const uint8_t* codes, const Line& line, int32_t bits,
                 float* x) {
  const double from = load_f16(least), step = load_f16(scale);
  for (int64_t i = 0; i < line.n; ++i) {
    const int64_t bit = (line.first + i * line.code_stride) * bits;
    const int32_t code = (codes[bit / 8] >> (bit % 8)) & ((1 << bits) - 1);
    x[i * line.stride] = static_cast<float>(from + step * code);  // an exact product: no compiler rounds it otherwise
  }
}

bool finite_halves(const uint8_t* p, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(load_f16(p + 2 * i))) return false;
  }
  return true;
}

}  // namespace

// Rows are [value ; key]: coordinate j of the value at j, of the key at d + j.
template <class F>
bool GroupQuantiser::each_line(F&& visit) const {
  const int64_t n_parts = n_channel_groups();
  bool all = true;
  for (int64_t j = 0; j < d_; ++j) {
    all = visit(d_ + j, 2 * j, 2 * d_ + 2 * j, 4 * d_, Line{group_, 2 * d_, j, d_}) && all;
  }
  for (int64_t t = 0; t < group_; ++t) {
    const int64_t at = key_bytes() + t * value_bytes();
    for (int64_t c = 0; c < n_parts; ++c) {
      const Line line = {std::min(group_, d_ - c * group_), 1, c * group_, 1};
      all = visit(t * 2 * d_ + c * group_, at + 2 * c, at + 2 * (n_parts + c), at + 4 * n_parts, line) && all;
    }
  }
  return all;
}

Status GroupQuantiser::encode(const ConstTensorView& rows, const TensorView& codes, Stream&) const {
  std::fill_n(codes.as<uint8_t>(), codes.n_elements(), uint8_t{0});
  for (int64_t g = 0; g < codes.dim(0); ++g) {
    const float* x = rows.as<float>() + g * group_ * 2 * d_;
    uint8_t* to = codes.as<uint8_t>() + g * group_bytes();
    const bool held = each_line([&](int64_t at, int64_t least, int64_t scale, int64_t code, const Line& line) {
      return encode_line(x + at, line, bits_, to + least, to + scale, to + code);
    });
    if (!held) return invalid_argument("policy kivi: a key or value is beyond 65504, the most that a scale holds");
  }
  return {};
}

Status GroupQuantiser::decode(const ConstTensorView& codes, const TensorView& rows, Stream&) const {
  for (int64_t g = 0; g < codes.dim(0); ++g) {
    float* x = rows.as<float>() + g * group_ * 2 * d_;
    const uint8_t* from = codes.as<uint8_t>() + g * group_bytes();
    each_line([&](int64_t at, int64_t least, int64_t scale, int64_t code, const Line& line) {
      decode_line(from + least, from + scale, from + code, line, bits_, x + at);
      return true;
    });
  }
  return {};
}

bool GroupQuantiser::check(const ConstTensorView& codes) const {
  for (int64_t g = 0; g < codes.dim(0); ++g) {
    const uint8_t* from = codes.as<uint8_t>() + g * group_bytes();
    if (!finite_halves(from, 2 * d_)) return false;
    for (int64_t t = 0; t < group_; ++t) {
      if (!finite_halves(from + key_bytes() + t * value_bytes(), 2 * n_channel_groups())) return false;
    }
  }
  return true;
}

}  // namespace vestige::kivi
