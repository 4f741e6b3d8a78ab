// Policies that code every row alike: codes worked by hand, attention over what they stand for, bytes, growth, files.

#include "cache/policies/kivi/group_quantiser.h"
#include "tests/cache/cache_fixture.h"
#include "vestige/ops.h"

namespace vestige::testing {
namespace {

TEST(GroupQuantiser, WorkedExample) {
  const kivi::GroupQuantiser quantiser(8, 2, 4);
  ASSERT_EQ(quantiser.group_bytes(), 4 * 4 + 8 * 1 + 8 * (4 + 1));
  std::vector<float> rows;
  for (int t = 0; t < 8; ++t) {
    const auto x = float(t);
    rows.insert(rows.end(), {x, x + 1, x + 2, x + 3});           // value
    rows.insert(rows.end(), {x, 5, -x, t % 2 == 1 ? 3.0f : 0});  // key
  }
  // Channel 0: least 0, scale fp16(7 / 3) = 0x40ab, codes 0 0 1 1 2 2 3 3. Channel 1: 5, scale 0. Channel 2: least -7,
  // codes 3 3 2 2 1 1 0 0. Channel 3: scale 1, codes 0 3 0 3 ... Values: least t, scale 1, codes 0 1 2 3.
  std::vector<uint8_t> want = {0x00, 0x00, 0x00, 0x45, 0x00, 0xc7, 0x00, 0x00,   // least
                               0xab, 0x40, 0x00, 0x00, 0xab, 0x40, 0x00, 0x3c,   // scale
                               0x30, 0xf0, 0x21, 0xe1, 0x12, 0xd2, 0x03, 0xc3};  // two bits a channel, by row
  const uint16_t halves[] = {0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700};  // 0 to 7
  for (const uint16_t h : halves) {
    want.insert(want.end(), {uint8_t(h & 0xff), uint8_t(h >> 8), 0x00, 0x3c, 0xe4});
  }
  std::vector<uint8_t> codes(want.size());
  const auto s = make_stream();
  VESTIGE_ASSERT_OK(quantiser.encode({rows.data(), DType::kF32, {8, 8}}, {codes.data(), DType::kU8, {1, 64}}, *s));
  EXPECT_EQ(codes, want);
  std::vector<float> back(64);
  VESTIGE_ASSERT_OK(quantiser.decode({codes.data(), DType::kU8, {1, 64}}, {back.data(), DType::kF32, {8, 8}}, *s));
  const float step = 1195.0f / 512;  // fp16(7 / 3)
  for (int t = 0; t < 8; ++t) {
    const float* x = back.data() + t * 8;
    const auto v = float(t);
    EXPECT_EQ(std::vector<float>(x, x + 4), (std::vector<float>{v, v + 1, v + 2, v + 3}));
    EXPECT_EQ(std::vector<float>(x + 4, x + 8),
              (std::vector<float>{step * float(t / 2), 5, -7 + step * float(3 - t / 2), t % 2 == 1 ? 3.0f : 0}));
  }
}

constexpr int64_t kBlock = 64, kSinks = 4, kD = 32, kWidth = 64;
const Shape kShape{{kD, kD, DType::kBF16, false}, kBlock, 3};

struct QuantisedCase {
  const char* policy;
  int32_t bits;
  int64_t recent;    ///< rows kept beside the sinks, with window = 20
  double row_bytes;  ///< of a coded row, both sides
};

void PrintTo(const QuantisedCase& c, std::ostream* out) { *out << c.policy << c.bits; }

class QuantisedTest : public ::testing::TestWithParam<QuantisedCase> {
 protected:
  std::unique_ptr<LayerCache> cache() const {
    return make_cache(kShape, GetParam().policy, 8, {{"bits", GetParam().bits}, {"window", 20}});
  }
  void append(LayerCache& c, int64_t begin, int64_t n) {
    VESTIGE_ASSERT_OK(c.append(view_rows(rows_, kShape.layout, begin, n), *s_));
  }
  std::unique_ptr<LayerCache> fitted(int64_t n) {
    auto c = cache();
    append(*c, 0, n);
    EXPECT_TRUE(fit(*c, queries_, *s_).ok());
    return c;
  }
  /// The numbers x[i stride], i < n, as `bits` bits between their least and largest.
  static void round_uniformly(float* x, int64_t n, int64_t stride, int32_t bits) {
    float low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < n; ++i) {
      low = std::min(low, x[i * stride]);
      high = std::max(high, x[i * stride]);
    }
    const int32_t top = (1 << bits) - 1;
    const auto half = [](double v) { return double(f16_to_f32(f32_to_f16(float(v)))); };
    const double step = half((double(high) - double(low)) / top), least = half(double(low));
    for (int64_t i = 0; i < n; ++i) {
      int32_t nearest = 0;  // of two as near the higher
      for (int32_t c = 1; c <= top; ++c) {
        const auto away = [&](int32_t code) { return std::abs(least + step * code - double(x[i * stride])); };
        if (away(c) <= away(nearest)) nearest = c;
      }
      x[i * stride] = float(least + step * nearest);
    }
  }
  /// rows_ with those of [kSinks, end) as their codes stand for them.
  std::vector<float> decoded(int64_t end) {
    std::vector<float> rows = rows_;
    const int32_t bits = GetParam().bits;
    float* first = rows.data() + kSinks * kWidth;
    const int64_t n = end - kSinks;
    if (GetParam().policy == std::string("kivi")) {
      for (int64_t t = 0; t < n; t += 32) {
        for (int64_t j = 0; j < kD; ++j) round_uniformly(first + t * kWidth + kD + j, 32, kWidth, bits);
      }
      for (int64_t t = 0; t < n; ++t) round_uniformly(first + t * kWidth, kD, 1, bits);
      return rows;
    }
    std::vector<uint8_t> codes(static_cast<size_t>(2 * n * kD * bits / 8));
    std::vector<uint16_t> scale(static_cast<size_t>(2 * n));
    const TensorView code_view(codes.data(), DType::kU8, {2 * n, kD * bits / 8});
    const TensorView scale_view(scale.data(), DType::kF16, {2 * n}), x(first, DType::kF32, {2 * n, kD});
    EXPECT_TRUE(ops::encode_rotated({x, bits, 7, code_view, scale_view}, *s_).ok());
    EXPECT_TRUE(ops::decode_rotated({code_view, scale_view, bits, 7, x}, *s_).ok());
    return rows;
  }

  std::unique_ptr<Stream> s_ = make_stream();
  std::vector<float> rows_ = make_rows(14 * kBlock, kShape.layout), queries_ = make_queries(40, 3, kShape.layout);
};

TEST_P(QuantisedTest, AttendsWhatTheCodesStandFor) {
  for (const int64_t n : {5 * kBlock + 7, 11 * kBlock}) {  // of one tile of rows, and of three
    auto c = fitted(n);
    const int64_t end = n / kBlock * kBlock - GetParam().recent;
    const std::vector<float> rows = decoded(end);
    EXPECT_NE(rows, rows_);
    for (int64_t i = 0; i < 5; ++i) {
      const float* q = queries_.data() + i * 3 * kWidth;
      const Attended a = attend(*c, q, *s_);
      EXPECT_EQ(a.record.n_coded, end - kSinks);
      expect_attends(a, q, rows, all_ids(n), kShape);
    }
  }
}

TEST_P(QuantisedTest, TrueBytesAreCounted) {
  auto c = fitted(9 * kBlock + 3);
  const int64_t n_coded = 9 * kBlock - GetParam().recent - kSinks;
  EXPECT_TRUE(c->rows_dropped());
  EXPECT_EQ(c->n_kept(), kSinks + GetParam().recent);
  EXPECT_DOUBLE_EQ(c->policy().coded_row_bytes(kShape.layout), GetParam().row_bytes);
  EXPECT_DOUBLE_EQ(double(c->bytes().codes), double(n_coded) * GetParam().row_bytes);
  EXPECT_EQ(c->bytes().index, c->bytes().codes);
  EXPECT_EQ(saved(*c).tensors.at("quantised_codes").bytes.size(), size_t(c->bytes().codes));
  const StepRecord r = attend(*c, queries_.data(), *s_).record;
  EXPECT_EQ(r.read_bytes, (r.n_kept + r.n_tail) * kShape.layout.row_bytes() + c->bytes().codes);
}

// The trivial cap on the error counts in it.
TEST_P(QuantisedTest, LongestValueIsKnown) {
  const auto c = fitted(9 * kBlock + 3);
  double longest = 0;
  for (int64_t u = kSinks; u < 9 * kBlock - GetParam().recent; ++u) {
    double square = 0;
    for (int64_t j = 0; j < kD; ++j) square += std::pow(double(rows_[size_t(u * kWidth + j)]), 2);
    longest = std::max(longest, std::sqrt(square));
  }
  const double stored = double(saved(*c).values<float>("quantised_norm").at(0));
  EXPECT_GE(stored, longest);
  EXPECT_LE(stored, longest * (1 + 1e-5));
}

// Rows that were kept are coded from their copies: as if all rows were there.
TEST_P(QuantisedTest, LaterBlocksAreCodedAsIfAllRowsWereThere) {
  auto whole = fitted(7 * kBlock + 1), step_by_step = cache();
  for (int64_t n = 0; n < 7 * kBlock + 1; ++n) {
    append(*step_by_step, n, 1);
    attend(*step_by_step, queries_.data(), *s_);
    EXPECT_EQ(step_by_step->rows_dropped(), n + 1 >= kBlock);
  }
  EXPECT_TRUE(saved(*step_by_step).tensors == saved(*whole).tensors);
}

TEST_P(QuantisedTest, RefusesHostileFiles) {
  const auto c = fitted(5 * kBlock + 7);
  const MemoryStore store = saved(*c);
  const auto load = [&](const MemoryStore& s) { return cache()->load("", s).code(); };
  ASSERT_EQ(load(store), StatusCode::kOk);
  for (const char* name : {"quantised_codes", "quantised_norm"}) {
    MemoryStore bad = store;
    std::fill(bad.tensors.at(name).bytes.begin(), bad.tensors.at(name).bytes.end(), std::byte{0x7f});
    std::fill_n(bad.tensors.at(name).bytes.end() - 4, 4, std::byte{0xff});
    EXPECT_EQ(load(bad), StatusCode::kDataLoss) << name;
    bad = store;
    bad.tensors.erase(name);
    EXPECT_EQ(load(bad), StatusCode::kNotFound) << name;
  }
  MemoryStore bad = store;
  --bad.tensors.at("quantised_codes").shape[0];
  EXPECT_EQ(load(bad), StatusCode::kDataLoss);
}

// The block stays the open tail: nothing is lost.
TEST_P(QuantisedTest, RefusesRowsThatAreNotFinite) {
  rows_[10 * kWidth + 3] = NAN;
  auto c = cache();
  EXPECT_EQ(c->append(view_rows(rows_, kShape.layout, 0, kBlock), *s_).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(c->n_rows(), kBlock);
  EXPECT_EQ(c->n_closed(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, QuantisedTest,
                         ::testing::Values(QuantisedCase{"kivi", 4, 28, (16.0 + 4) * 2},
                                           QuantisedCase{"kivi", 2, 28, (8.0 + 4) * 2},
                                           QuantisedCase{"turboquant", 4, 20, (16.0 + 2) * 2},
                                           QuantisedCase{"turboquant", 3, 20, (12.0 + 2) * 2},
                                           QuantisedCase{"turboquant", 2, 20, (8.0 + 2) * 2}),
                         [](const auto& test) { return test.param.policy + std::to_string(test.param.bits); });

TEST(QuantisedPolicies, RefuseWhatTheyCannotCode) {
  const auto made = [](const char* name, const RowLayout& layout, const std::map<std::string, double>& settings = {},
                       int32_t block_rows = 64) {
    PolicyConfig config;
    config.name = name;
    config.block_rows = block_rows;
    config.settings = settings;
    return create_policy(config, layout).status().code();
  };
  const RowLayout good = {64, 64, DType::kBF16, false};
  for (const char* name : {"kivi", "turboquant"}) {
    EXPECT_EQ(made(name, good), StatusCode::kOk);
    EXPECT_EQ(made(name, {512, 64}), StatusCode::kUnsupported);
    EXPECT_EQ(made(name, {32, 48, DType::kBF16, false}), StatusCode::kUnsupported);
    EXPECT_EQ(made(name, {6, 6, DType::kBF16, false}), StatusCode::kUnsupported);
    EXPECT_EQ(made(name, good, {{"bits", 2.5}}), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(made("kivi", good, {{"bits", 3}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(made("kivi", good, {{"group", 48}}), StatusCode::kInvalidArgument);  // blocks do not hold whole groups
  EXPECT_EQ(made("kivi", good, {{"group", 48}}, 96), StatusCode::kOk);
  EXPECT_EQ(made("kivi", {12, 12, DType::kBF16, false}), StatusCode::kOk);
  EXPECT_EQ(made("turboquant", {12, 12, DType::kBF16, false}), StatusCode::kUnsupported);
  EXPECT_EQ(made("adakv", {512, 64}), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace vestige::testing
