// encode_planes and attend_planes: cpu against ref, both against float64 attention over what the rows stand for, and
// against a case worked by hand.

#include <limits>

#include "tests/backend/planes_fixture.h"

namespace vestige::test {
namespace {

using dense_test::check_backends;
using dense_test::close;
using dense_test::for_each_target;
using dense_test::ok;
using dense_test::refused;
using dense_test::stream;

TEST(EncodePlanes, CpuGivesTheBytesOfRef) {
  for (const PlanesCase& c : planes_cases()) {
    SCOPED_TRACE(c.name);
    const PlanesData data(c);
    for (const int32_t n_threads : {1, 3}) EXPECT_EQ(data.encoded(*stream("cpu", n_threads)), data.codes);
  }
}

// By search through all that the bits stand for.
TEST(EncodePlanes, TakesTheNearest) {
  for (const PlanesCase& c : planes_cases()) {
    SCOPED_TRACE(c.name);
    const PlanesData data(c);
    for (int64_t t = 0; t < std::min<int64_t>(c.n, 40); ++t) {
      const int64_t of = data.classes[static_cast<size_t>(t)];
      for (const bool is_key : {true, false}) {
        const PlaneSideData& side = is_key ? data.key : data.value;
        const float* x = is_key ? &data.key_coefficients[static_cast<size_t>(t * (c.key.r + 3))]
                                : data.value_coefficients.data() + t * c.value.r;
        for (size_t k = 0; k < side.scale.size(); ++k) {
          const auto j = static_cast<int64_t>(k);
          const auto [bits, level] =
              side.level(of, j, data.codes.data() + data.begin[static_cast<size_t>(t)], is_key ? 0 : data.key.bits(of));
          const double off = std::abs(side.number(of, j, bits, level) - double(x[k]));
          for (int64_t other = 0; other < (int64_t{1} << bits); ++other) {
            ASSERT_LE(off, std::abs(side.number(of, j, bits, other) - double(x[k])) + 1e-12) << t << " " << j;
          }
        }
      }
    }
  }
}

TEST(AttendPlanes, IsAttentionOverWhatTheRowsStandFor) {
  for (const PlanesCase& c : planes_cases()) {
    SCOPED_TRACE(c.name);
    const PlanesData data(c);
    Floats out, lse;
    ASSERT_TRUE(ok(ops::attend_planes(data.params(&out, &lse), *stream("ref"))));
    // Angles of `rotate` are float32 products.
    const double far = 6e-8 * double(c.first_position + c.n) * 10;
    EXPECT_TRUE(close(out, data.out, 2e-6 + far));
    EXPECT_TRUE(close(lse, data.lse, 2e-6 + far));
    check_backends(
        [&](Stream& s) {
          EXPECT_TRUE(ok(ops::attend_planes(data.params(&out, &lse), s)));
          Floats all = out;
          all.insert(all.end(), lse.begin(), lse.end());
          return all;
        },
        c.bound);
  }
}

/// Two classes, three rows, eight wide. Keys of class 0 have one coefficient of 2 bits, of class 1 two of 1 and 3 bits;
/// values one of 1 bit and, in class 1, one of 2 bits.
struct HandWorked {
  std::vector<int8_t> basis = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, -1};
  Floats scale = {2, 0.5f}, key_mean = {0, 0, 0, 0, 0, 0, 0, 1}, value_mean = {10, 0, 0, 0, 0, 0, 0, 0};
  std::vector<int32_t> key_planes = {1, 1, 0, 0, 0, 0, 0, 0, 2, 1, 1, 0, 0, 0, 0, 0};
  std::vector<int32_t> value_planes = {1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0};
  std::vector<uint8_t> range = {168, 160, 160, 176};  // 2, 1; 1, 4
  std::vector<uint8_t> row_class = {0b00'01'00};
  std::vector<int32_t> run_start = {0, 0};
  // Row 0: bits 1 0 (key), 1. Row 2: bits 0 1, 0. Row 1: 1 0 (plane 0), 0, 1 (of coefficient 0), then 0 1.
  std::vector<uint8_t> codes = {0b101, 0b010, 0b101001};

  PlaneRows rows() const {
    const auto side = [&](const Floats& mean, const std::vector<int32_t>& planes) {
      return PlaneSide{{basis.data(), DType::kU8, {2, 8}},
                       {scale.data(), DType::kF32, {2}},
                       {mean.data(), DType::kF32, {8}},
                       {planes.data(), DType::kI32, {2, 8}},
                       {range.data(), DType::kU8, {2, 2}}};
    };
    return {.key = side(key_mean, key_planes),
            .value = side(value_mean, value_planes),
            .row_class = {row_class.data(), DType::kU8, {1}},
            .run_start = {run_start.data(), DType::kI32, {1, 2}},
            .codes = {codes.data(), DType::kU8, {3}},
            .n_rows = 3};
  }
};

TEST(AttendPlanes, HandWorked) {
  const HandWorked hand;
  // Keys, t in steps of a half of the last bit. Row 0: 2 (1/2 + 1/8 - 1/2) = 1/4, times 2 along (1 0 ...).
  //   Row 2: 2 (1/4 + 1/8 - 1/2) = -1/4. Row 1: 1 (1/2 + 1/8 + 1/16 - 1/2) = 3/16; second 4 (0 + 1/4 - 1/2) = -1, times
  //   1/2 along (0 0 2 ... -1).
  // With q = (8 0 1 0 0 0 0 2): row 0: 8 / 2 + 2 = 6, row 2: -4 + 2 = -2, row 1: 8 * 3/8 - 1 + 2 (1 + 1/2) = 5.
  // Values: row 0: 10 + 2 * 2 (1/2 + 1/4 - 1/2) = 11, row 2: 10 + 4 (-1/4) = 9, row 1: 10 + 2 * 1 (-1/4) = 9.5 and
  //   4 (1/2 + 1/4 - 1/2) / 2 = 1/2 along (0 0 2 ... -1).
  const Floats q = {8, 0, 1, 0, 0, 0, 0, 2};
  const double w[3] = {std::exp(6), std::exp(5), std::exp(-2)}, sum = w[0] + w[1] + w[2];
  const Floats want = {static_cast<float>((11 * w[0] + 9.5 * w[1] + 9 * w[2]) / sum),
                       0,
                       static_cast<float>(w[1] / sum),
                       0,
                       0,
                       0,
                       0,
                       static_cast<float>(-w[1] / sum / 2)};
  const auto check = [&](Stream& s) {
    Floats out(8), lse(1);
    ASSERT_TRUE(ok(ops::attend_planes({.q = {q.data(), DType::kF32, {1, 8}},
                                       .rows = hand.rows(),
                                       .out = {out.data(), DType::kF32, {1, 8}},
                                       .lse = {lse.data(), DType::kF32, {1}}},
                                      s)));
    EXPECT_TRUE(close(out, want, 1e-4));
    EXPECT_NEAR(lse[0], std::log(sum), 1e-3);
  };
  check(*stream("ref"));
  for_each_target([&] { check(*stream("cpu")); });
}

TEST(EncodePlanes, HandWorked) {
  const HandWorked hand;
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  // Row 0: key levels -3/4, -1/4, 1/4, 3/4: 0.3 is the third, 10. Row 1: levels of eighths from -7/16: 0.2 is the
  // sixth, 101. Row 2: -0.1 is the second, 01.
  const Floats key = {0.3f, 9, 0.2f, -0.5f, -0.1f, nan}, value = {0.1f, 0, -1, 1, -1e9f, 0};
  // Below: a border takes the higher, what is no number the lowest, what is outside the nearest end.
  const Floats hard_key = {0, 0, nan, inf, -inf, 0}, hard_value = {nan, 0, inf, -0.0f, 0, nan};
  const std::vector<uint8_t> hard = {0b001, 0b100, 0b110010};
  for (const char* backend : {"ref", "cpu"}) {
    for (const bool is_hard : {false, true}) {
      std::vector<uint8_t> codes(3, 0xff);
      ASSERT_TRUE(ok(ops::encode_planes({.key = {(is_hard ? hard_key : key).data(), DType::kF32, {3, 2}},
                                         .value = {(is_hard ? hard_value : value).data(), DType::kF32, {3, 2}},
                                         .rows = hand.rows(),
                                         .codes = {codes.data(), DType::kU8, {3}}},
                                        *stream(backend))));
      EXPECT_EQ(codes, is_hard ? hard : hand.codes) << backend;
    }
  }
}

TEST(AttendPlanes, Checks) {
  const PlanesData data(planes_cases()[2]);
  Floats out, lse;
  const AttendPlanesParams p = data.params(&out, &lse);
  EXPECT_TRUE(ok(attend_planes_check(p)));
  auto bad = p;
  bad.scale = 0;
  EXPECT_TRUE(refused(attend_planes_check(bad), "scale"));
  bad = p;
  bad.first_position = -1;
  EXPECT_TRUE(refused(attend_planes_check(bad), "first_position"));
  bad = p;
  bad.q.shape[1] = 56;
  EXPECT_TRUE(refused(attend_planes_check(bad), "q"));
  bad = p;
  bad.rows.value.range.shape[0] = 3;
  EXPECT_TRUE(refused(attend_planes_check(bad), "range"));
  bad = p;
  bad.rows.key.basis.shape[0] = 65;
  EXPECT_TRUE(refused(attend_planes_check(bad), "basis"));
  bad = p;
  bad.rows.run_start.shape[0] = 2;
  EXPECT_TRUE(refused(attend_planes_check(bad), "run_start"));
  bad = p;
  bad.rows.n_rows = 13;
  EXPECT_TRUE(refused(attend_planes_check(bad), "row_class"));
  std::vector<int32_t> rising = data.key.n_planes;
  rising[9] = rising[8] + 1;
  bad = p;
  bad.rows.key.n_planes.data = rising.data();
  EXPECT_TRUE(refused(attend_planes_check(bad), "n_planes[1, 1]"));
  Floats frequencies(33);
  bad = p;
  bad.frequencies = {frequencies.data(), DType::kF32, {33}};
  EXPECT_TRUE(refused(attend_planes_check(bad), "frequencies"));
  Floats narrow(9 * 23);
  const EncodePlanesParams e = {.key = {narrow.data(), DType::kF32, {9, 23}},
                                .value = {narrow.data(), DType::kF32, {9, 23}},
                                .rows = data.rows,
                                .codes = {out.data(), DType::kU8, {100}}};
  EXPECT_TRUE(refused(encode_planes_check(e), "key"));
}

}  // namespace
}  // namespace vestige::test
