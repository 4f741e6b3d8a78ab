// nearest_anchor and attend_anchored: cpu against ref, both against float64 attention over the rebuilt tokens and
// against hand-worked cases.

#include <limits>

#include "tests/backend/anchored_fixture.h"

namespace vestige::test {
namespace {

using dense_test::check_backends;
using dense_test::close;
using dense_test::ok;
using dense_test::refused;
using dense_test::same_bits;
using dense_test::stream;

/// index, gamma, cosine of each vector.
Floats nearest(const ConstTensorView& x, const ConstTensorView& anchors, Stream& s) {
  const int64_t n = x.dim(0);
  std::vector<int32_t> index(static_cast<size_t>(n), -7);
  Floats gamma(static_cast<size_t>(n)), cosine(static_cast<size_t>(n));
  EXPECT_TRUE(ok(ops::nearest_anchor({.x = x,
                                      .anchors = anchors,
                                      .index = {index.data(), DType::kI32, {n}},
                                      .gamma = {gamma.data(), DType::kF32, {n}},
                                      .cosine = {cosine.data(), DType::kF32, {n}}},
                                     s)));
  Floats all(index.begin(), index.end());
  all.insert(all.end(), gamma.begin(), gamma.end());
  all.insert(all.end(), cosine.begin(), cosine.end());
  return all;
}

Floats nearest(const Floats& x, const Floats& anchors, int64_t d, Stream& s) {
  return nearest(ConstTensorView(x.data(), DType::kF32, {static_cast<int64_t>(x.size()) / d, d}),
                 ConstTensorView(anchors.data(), DType::kF32, {static_cast<int64_t>(anchors.size()) / d, d}), s);
}

// Not close: the same bits, on every instruction set.
TEST(NearestAnchor, CpuGivesTheBitsOfRef) {
  for (const NearestAnchorCase& c : nearest_anchor_cases()) {
    SCOPED_TRACE(c.name);
    const auto x = stored(numbers(c.n * c.d, 5), c.dtype), anchors = stored(numbers(c.k * c.d, 6, 2.0f), c.dtype);
    check_backends(
        [&](Stream& s) {
          return nearest(ConstTensorView(x.data(), c.dtype, {c.n, c.d}),
                         ConstTensorView(anchors.data(), c.dtype, {c.k, c.d}), s);
        },
        0);
  }
}

TEST(NearestAnchor, HandWorked) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  // Anchors: zero, (2, 0), (0, 1), (0, -3) (the same line), (2, 0) again.
  const Floats anchors = {0, 0, 2, 0, 0, 1, 0, -3, 2, 0};
  const Floats x = {3, 1, -1, 0.5f, 1, -9, 0, 0, nan, 1, 1, inf, 1e30f, 0, 1e-40f, 0, 1, 1};
  const Floats want = {1,
                       1,
                       2,
                       0,
                       0,
                       0,
                       1,
                       1,
                       1,  // ties: the lowest
                       1.5f,
                       -0.5f,
                       -9,
                       0,
                       0,
                       0,
                       5e29f,
                       5e-41f,
                       0.5f,  // gamma may be negative
                       3 / std::sqrt(10.0f),
                       1 / std::sqrt(1.25f),
                       9 / std::sqrt(82.0f),
                       0,
                       0,
                       0,
                       1,
                       1,
                       std::sqrt(0.5f)};
  for (const char* backend : {"ref", "cpu"}) {
    const Floats got = nearest(x, anchors, 2, *stream(backend));
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_FLOAT_EQ(got[i], want[i]) << backend << " " << i;
  }
}

// Anchors that are equal, or differ in their last bit: what a float32 product cannot tell apart.
TEST(NearestAnchor, NearTies) {
  const int64_t d = 64, k = 300;
  const Floats base = numbers(d, 21);
  Floats anchors, x = numbers(40 * d, 22);
  for (int64_t a = 0; a < k; ++a) {
    for (int64_t j = 0; j < d; ++j) {
      float v = base[static_cast<size_t>(j)];
      if (a > 0 && j == a % d) v = std::nextafter(v, a % 2 == 0 ? 9.0f : -9.0f);
      anchors.push_back(v * std::ldexp(1.0f, static_cast<int>(a % 7)));
    }
  }
  check_backends([&](Stream& s) { return nearest(x, anchors, d, s); }, 0);
}

TEST(NearestAnchor, NoAnchorToChoose) {
  for (const char* backend : {"ref", "cpu"}) {
    for (float v : nearest(Floats{1, 2, 3, 4}, Floats(6, 0.0f), 2, *stream(backend))) EXPECT_EQ(v, 0.0f);
  }
}

TEST(NearestAnchor, Checks) {
  Floats x(8), anchors(8), gamma(2);
  std::vector<int32_t> index(2);
  const NearestAnchorParams p = {.x = {x.data(), DType::kF32, {2, 4}},
                                 .anchors = {anchors.data(), DType::kF32, {2, 4}},
                                 .index = {index.data(), DType::kI32, {2}},
                                 .gamma = {gamma.data(), DType::kF32, {2}},
                                 .cosine = {}};
  EXPECT_TRUE(ok(nearest_anchor_check(p)));
  auto bad = p;
  bad.anchors = ConstTensorView(anchors.data(), DType::kF32, {4, 2});
  EXPECT_TRUE(refused(nearest_anchor_check(bad), "anchors"));
  bad = p;
  bad.anchors.shape[0] = 0;
  EXPECT_TRUE(refused(nearest_anchor_check(bad), "anchors"));
  bad = p;
  bad.index.shape[0] = 1;
  EXPECT_TRUE(refused(nearest_anchor_check(bad), "index"));
}

Floats narrow(const Doubles& x) {
  Floats y;
  for (double v : x) y.push_back(static_cast<float>(v));
  return y;
}

TEST(AttendAnchored, IsAttentionOverWhatTheTokensStandFor) {
  for (const AttendAnchoredCase& c : attend_anchored_cases()) {
    SCOPED_TRACE(c.name);
    const AnchoredData data(c);
    for (const char* backend : {"ref", "cpu"}) {
      Floats out, lse;
      ASSERT_TRUE(ok(ops::attend_anchored(data.params(&out, &lse), *stream(backend))));
      EXPECT_TRUE(close(out, narrow(data.out), c.bound)) << backend;
      EXPECT_TRUE(close(lse, narrow(data.lse), c.bound)) << backend;
    }
  }
}

TEST(AttendAnchored, CpuAgreesWithRef) {
  for (const AttendAnchoredCase& c : attend_anchored_cases()) {
    SCOPED_TRACE(c.name);
    const AnchoredData data(c);
    for (const bool with_scores : {false, true}) {
      check_backends(
          [&](Stream& s) {
            Floats out, lse, scores;
            EXPECT_TRUE(ok(ops::attend_anchored(data.params(&out, &lse, with_scores ? &scores : nullptr), s)));
            out.insert(out.end(), lse.begin(), lse.end());
            out.insert(out.end(), scores.begin(), scores.end());
            return out;
          },
          c.bound);
    }
  }
}

TEST(AttendAnchored, Checks) {
  const AnchoredData data(attend_anchored_cases()[2]);
  Floats out, lse;
  const AttendAnchoredParams p = data.params(&out, &lse);
  EXPECT_TRUE(ok(attend_anchored_check(p)));
  auto bad = p;
  bad.heads = std::span(data.heads).first(1);
  EXPECT_TRUE(refused(attend_anchored_check(bad), "sets"));
  bad = p;
  bad.bits = 4;
  EXPECT_TRUE(refused(attend_anchored_check(bad), "codes"));
  bad = p;
  Floats frequencies(64);
  bad.frequencies = {frequencies.data(), DType::kF32, {33}};
  EXPECT_TRUE(refused(attend_anchored_check(bad), "frequencies"));
  std::vector<AnchoredHead> heads = data.heads;
  bad = p;
  bad.heads = heads;
  heads[1].value.mask.shape[0] += 1;
  EXPECT_TRUE(refused(attend_anchored_check(bad), "mask"));
  heads = data.heads;
  heads[0].key.scale.shape[0] -= 1;
  EXPECT_TRUE(refused(attend_anchored_check(bad), "scale"));
  heads = data.heads;
  heads[0].value.gamma.dtype = DType::kI32;
  EXPECT_TRUE(refused(attend_anchored_check(bad), "gamma"));
}

// Every code of the logarithmic gamma is its own nearest, one is exact, and a number moves by 2.2% at most.
TEST(GammaCode, RoundTrip) {
  const auto& table = gamma_table();
  EXPECT_EQ(table[kGammaOne], 1.0f);
  EXPECT_EQ(gamma_code(1.0f), kGammaOne);
  EXPECT_EQ(gamma_code(-1.0f), kGammaOne + 128);
  for (int code = 0; code < 256; ++code) {
    if (code == 128) continue;  // never written; reads as zero
    EXPECT_EQ(gamma_code(table[static_cast<size_t>(code)]), code);
  }
  for (float x = 0.034f; x < 7.5f; x *= 1.0007f) {
    for (const float signed_x : {x, -x}) {
      const float back = table[gamma_code(signed_x)];
      EXPECT_NEAR(back / signed_x, 1.0f, 0.0222f) << signed_x;
      for (int step : {-1, 1}) {
        const float other = table[static_cast<size_t>(gamma_code(signed_x) + step)];
        EXPECT_LE(std::abs(back - signed_x), std::abs(other - signed_x));
      }
    }
  }
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(gamma_code(0.0f), 0);
  EXPECT_EQ(gamma_code(1e-3f), 0);
  EXPECT_EQ(gamma_code(-1e9f), 255);
  EXPECT_EQ(gamma_code(inf), 127);
  EXPECT_EQ(gamma_code(std::nanf("")), 0);
}

}  // namespace
}  // namespace vestige::test
