// Every 16-bit pattern and every fp8 code, against values computed another way.

#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace vestige {
namespace {

// Value of a small float from its fields, by the textbook: (-1)^s 2^(e - bias) 1.m, subnormals 2^(1 - bias) 0.m.
double value_of(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto mantissa =
      static_cast<double>(bits & ((1u << mantissa_bits) - 1)) / static_cast<double>(1u << mantissa_bits);
  const int exponent = static_cast<int>((bits >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const double sign = (bits >> (exponent_bits + mantissa_bits)) & 1u ? -1.0 : 1.0;
  return sign * (exponent == 0 ? std::ldexp(mantissa, 1 - bias) : std::ldexp(1.0 + mantissa, exponent - bias));
}

struct Format {
  const char* name;
  int exponent_bits, mantissa_bits;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);

  uint16_t infinity() const { return static_cast<uint16_t>(((1u << exponent_bits) - 1) << mantissa_bits); }
};

const Format kFormats[] = {{"bf16", 8, 7, bf16_to_f32, f32_to_bf16}, {"f16", 5, 10, f16_to_f32, f32_to_f16}};

TEST(Half, EveryPatternWidensToItsValueAndBack) {
  for (const Format& f : kFormats) {
    SCOPED_TRACE(f.name);
    for (uint32_t i = 0; i <= 0xffffu; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      const float wide = f.widen(bits);
      const uint16_t magnitude = bits & 0x7fffu;
      if (magnitude > f.infinity()) {
        ASSERT_TRUE(std::isnan(wide)) << i;
        ASSERT_TRUE(std::isnan(f.widen(f.narrow(wide)))) << i;
        continue;
      }
      if (magnitude == f.infinity()) {
        ASSERT_EQ(wide,
                  bits & 0x8000u ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity());
      } else {
        ASSERT_EQ(static_cast<double>(wide), value_of(bits, f.exponent_bits, f.mantissa_bits)) << i;
      }
      ASSERT_EQ(std::signbit(wide), (bits & 0x8000u) != 0) << i;
      ASSERT_EQ(f.narrow(wide), bits) << i;
    }
  }
}

TEST(Half, BetweenTwoNeighboursTheNearestWinsAndTiesGoToEven) {
  for (const Format& f : kFormats) {
    SCOPED_TRACE(f.name);
    for (uint32_t i = 0; i + 1 < f.infinity(); ++i) {
      const auto low = static_cast<uint16_t>(i), high = static_cast<uint16_t>(i + 1);
      const double a = static_cast<double>(f.widen(low)), b = static_cast<double>(f.widen(high));
      const auto middle = static_cast<float>((a + b) / 2);  // exact: one more bit than the format has
      if (middle == 0 || static_cast<double>(middle) != (a + b) / 2) continue;  // below float32's own range
      const uint16_t even = i % 2 == 0 ? low : high;
      for (const float sign : {1.0f, -1.0f}) {
        const auto s = static_cast<uint16_t>(sign < 0 ? 0x8000u : 0u);
        ASSERT_EQ(f.narrow(sign * middle), even | s) << i;
        ASSERT_EQ(f.narrow(sign * std::nextafter(middle, 0.0f)), low | s) << i;
        ASSERT_EQ(f.narrow(sign * std::nextafter(middle, std::numeric_limits<float>::infinity())), high | s) << i;
      }
    }
  }
}

TEST(Half, OverflowGoesToInfinity) {
  EXPECT_EQ(f32_to_f16(65519.99f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(f32_to_bf16(-std::numeric_limits<float>::infinity()), 0xff80);
}

TEST(Half, NanStaysNanWhateverItsPayload) {
  for (uint32_t bits : {0x7f800001u, 0x7fc00000u, 0xff800001u, 0x7f80ffffu, 0xffffffffu}) {
    const auto nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(nan)))) << bits;
    EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(nan)))) << bits;
  }
}

TEST(Half, EveryF8Code) {
  for (uint32_t i = 0; i < 256; ++i) {
    const float wide = f8e4m3_to_f32(static_cast<uint8_t>(i));
    if ((i & 0x7fu) == 0x7fu) {
      EXPECT_TRUE(std::isnan(wide)) << i;
      continue;
    }
    EXPECT_EQ(static_cast<double>(wide), value_of(i, 4, 3)) << i;
    EXPECT_EQ(std::signbit(wide), (i & 0x80u) != 0) << i;
  }
  EXPECT_EQ(f8e4m3_to_f32(0x7e), 448.0f);  // the largest: exponent 15 is an ordinary one
}

// Against the grid of all f16 values: the largest that is not beyond x.
TEST(Half, F16TowardZero) {
  for (uint32_t bits = 0; bits < 0x7bffu; ++bits) {
    const float low = f16_to_f32(static_cast<uint16_t>(bits)), high = f16_to_f32(static_cast<uint16_t>(bits + 1));
    for (const float x : {low, 0.5f * (low + high), std::nextafter(high, 0.0f)}) {
      EXPECT_EQ(f32_to_f16_toward_zero(x), bits) << x;
      EXPECT_EQ(f32_to_f16_toward_zero(-x), bits | 0x8000u) << x;
    }
  }
  EXPECT_EQ(f32_to_f16_toward_zero(65504.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16_toward_zero(1e30f), 0x7bff);
  EXPECT_EQ(f32_to_f16_toward_zero(1e-30f), 0);
}

}  // namespace
}  // namespace vestige
