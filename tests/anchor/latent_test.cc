// The one-sided form: a code worked by hand, bytes to the byte, attention over what the codes stand for, what residuals
// are worth, files and damage to them.

#include <gtest/gtest.h>

#include "cache/policies/anchor/latent_code.h"
#include "cache/policies/anchor/latent_utility.h"
#include "tests/cache/cache_fixture.h"

namespace vestige::anchor {
namespace {

using testing::Attended;
using testing::make_stream;
using testing::MemoryStore;
using testing::Shape;

LatentForm form_of(const RowLayout& layout, int64_t rank, int32_t bits) {
  return {.d_content = layout.d_content, .d_branch = layout.d_branch, .rank = rank, .bits = bits};
}

TEST(LatentPlan, WorkedBytes) {
  const LatentForm form = form_of({512, 64}, 32, 3);
  EXPECT_EQ(form.coarse_bytes(), (32 * 3 / 8 + 2) + (64 * 2 / 8 + 2));
  EXPECT_EQ(form.residual_bytes(), (512 * 2 / 8 + 2) + (64 * 2 / 8 + 2));
  EXPECT_EQ(form.basis_bytes(), 2 * (576 + 32 * 512));
  // 4,060 rows at 16x: 292,320 bytes; 33,920 of basis, 129,920 coarse, 512 of mask; 127,968 / 148 = 864.6
  EXPECT_EQ(affordable_residuals(form, 4060, 4060 * 1152 / 16, true), 864);
  EXPECT_EQ(latent_bytes(form, 4060, 864, true), 292224);
  EXPECT_EQ(affordable_residuals(form, 4060, 4060 * 1152, true), 4060);
  EXPECT_EQ(affordable_residuals(form, 16, 100, true), 0);
  EXPECT_EQ(rotated_bytes(80, 3), 24 + 2 + 6 + 2);  // 64 and 16
}

// All energy in 8 coordinates: left is what the bits leave. Ranks beyond cost basis and gain nothing.
TEST(LatentPlan, FormFollowsTheSpectrum) {
  std::vector<float> variance(512);
  std::fill_n(variance.begin(), 8, 1.0f);
  EXPECT_EQ(choose_form({512, 64}, variance, 4000, 4000 * 1152 / 16).rank, 8);
  std::fill_n(variance.begin(), 64, 1.0f);
  EXPECT_EQ(choose_form({512, 64}, variance, 4000, 4000 * 1152 / 16).rank, 64);
  EXPECT_EQ(choose_form({512, 64}, variance, 4000, 10), form_of({512, 64}, 8, 2));
}

// One coordinate alone is spread evenly by the rotation: every number is an outer level, and what is decoded is that
// coordinate to the rounding of the scale, the others exactly zero.
TEST(LatentCode, WorkedExample) {
  auto s = make_stream();
  const RowLayout layout = {16, 8, DType::kF32};
  FittedBasis fitted;
  LatentBasis& basis = fitted.basis;
  basis.form = form_of(layout, 8, 2);
  basis.mean.assign(24, 0);
  basis.mean[1] = f32_to_bf16(5);
  basis.basis.assign(16 * 8, 0);
  for (size_t i = 0; i < 8; ++i) basis.basis[i * 8 + i] = f32_to_bf16(1);  // the first 8 coordinates
  fitted = with_least_squares(basis);
  for (size_t i = 0; i < 8; ++i) {
    for (size_t j = 0; j < 16; ++j) EXPECT_NEAR(fitted.forward[i * 16 + j], i == j ? 1 : 0, 1e-6);
  }
  std::vector<float> rows(48), left(48);
  rows[1] = rows[24 + 1] = 5;  // the mean
  rows[0] = 1;                 // in the projection
  rows[24 + 9] = 2;            // outside of it
  rows[24 + 16 + 3] = -3;      // in the branch
  auto made = code_coarse(fitted, {rows.data(), DType::kF32, {2, 24}}, {left.data(), DType::kF32, {2, 24}}, *s);
  ASSERT_TRUE(made.ok()) << made.status().message();
  LatentSegment segment = *std::move(made);
  ASSERT_EQ(segment.codes.size(), 2u * (2 + 2 + 2 + 2));
  // scale = (1 / sqrt 8) / 1.5104176 = 0.234080, f16 toward zero 0x337d (0.2340088); codes have the outer bit set
  EXPECT_EQ(segment.codes[0] & 0x55, 0x55);
  EXPECT_EQ(segment.codes[1] & 0x55, 0x55);
  EXPECT_EQ(segment.codes[2] | segment.codes[3] << 8, 0x337d);
  EXPECT_NEAR(left[0], 1 - 0.2340088 * 1.5104176 * std::sqrt(8.0), 1e-6);
  // row 1: no projection; branch scale = (3 / sqrt 8) / 1.5104176 = 0.702241
  EXPECT_EQ(segment.codes[8 + 2] | segment.codes[8 + 3] << 8, 0);
  EXPECT_NEAR(f16_to_f32(uint16_t(segment.codes[8 + 6] | segment.codes[8 + 7] << 8)), 0.702241, 5e-4);
  EXPECT_EQ(left[24 + 9], 2);
  for (size_t j : {2, 9, 15, 20}) EXPECT_EQ(left[j], 0);
  VESTIGE_ASSERT_OK(add_latent_residuals(basis.form, {left.data(), DType::kF32, {2, 24}}, {2}, &segment, *s));
  ASSERT_EQ(segment.residuals.size(), size_t(16 / 4 + 2 + 8 / 4 + 2));
  std::vector<float> out(48);
  VESTIGE_ASSERT_OK(decode_latent(basis, segment, 0, 2, 0, {out.data(), DType::kF32, {2, 24}}, *s));
  for (size_t j = 0; j < 48; ++j) EXPECT_NEAR(out[j], rows[j], 2e-3) << j;
  // the branch's rest is coded once more: below a thousandth of a thousandth
  EXPECT_NEAR(out[24 + 16 + 3], -3, 1e-5);
  VESTIGE_ASSERT_OK(decode_latent(basis, segment, 1, 1, 0, {out.data(), DType::kF32, {1, 24}}, *s));
  EXPECT_NEAR(out[9], 2, 2e-3);
}

// By the definition in docs/policies/anchor.md, float64.
TEST(LatentUtility, EqualsTheDefinition) {
  auto s = make_stream();
  constexpr int64_t kAll = 9, kCoded = 7, kContent = 6, kRow = 10, kQueries = 4;
  std::mt19937_64 rng(3);
  std::normal_distribution<float> normal;
  const auto draw = [&](int64_t n) {
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = normal(rng);
    return x;
  };
  const std::vector<float> rows = draw(kAll * kRow), left = draw(kCoded * kRow), q = draw(kQueries * kRow);
  const std::vector<float> root = draw(kContent * kContent);
  std::vector<float> gram(root.size());
  for (size_t i = 0; i < kContent; ++i)
    for (size_t j = 0; j < kContent; ++j)
      for (size_t k = 0; k < kContent; ++k) gram[i * kContent + j] += root[k * kContent + i] * root[k * kContent + j];
  LatentTokens v = {.rows = {rows.data(), DType::kF32, {kAll, kRow}},
                    .left = {left.data(), DType::kF32, {kCoded, kRow}},
                    .d_content = kContent,
                    .queries = {q.data(), DType::kF32, {kQueries, kRow}},
                    .q_positions = {8, 8, 4, 4},
                    .value_gram = {gram.data(), DType::kF32, {kContent, kContent}},
                    .scale = 0.5f};
  const auto norm = [&](const std::vector<double>& x) {  // || root x ||^2
    double sum = 0;
    for (size_t k = 0; k < kContent; ++k) {
      double y = 0;
      for (size_t j = 0; j < kContent; ++j) y += double(root[k * kContent + j]) * x[j];
      sum += y * y;
    }
    return sum;
  };
  const auto dot = [&](size_t w, const std::vector<float>& x, size_t t) {
    double sum = 0;
    for (size_t j = 0; j < kRow; ++j) sum += double(q[w * kRow + j]) * double(x[t * kRow + j]);
    return 0.5 * sum;
  };
  const auto less = [&](size_t t, const std::vector<double>& y) {
    std::vector<double> x;
    for (size_t j = 0; j < kContent; ++j) x.push_back(double(rows[t * kRow + j]) - y[j]);
    return x;
  };
  std::vector<double> mean(kContent);
  for (size_t t = 0; t < kCoded; ++t)
    for (size_t j = 0; j < kContent; ++j) mean[j] += double(rows[t * kRow + j]) / kCoded;
  std::vector<double> blind(kCoded), first(kCoded);
  for (size_t w = 0; w < kQueries; ++w) {
    const auto seen = static_cast<size_t>(v.q_positions[w]) + 1;
    double total = 0;
    for (size_t t = 0; t < seen; ++t) total += std::exp(dot(w, rows, t));
    std::vector<double> y(kContent);
    for (size_t t = 0; t < seen; ++t)
      for (size_t j = 0; j < kContent; ++j) y[j] += std::exp(dot(w, rows, t)) / total * double(rows[t * kRow + j]);
    for (size_t t = 0; t < kCoded; ++t) {
      const std::vector<double> r(left.begin() + long(t) * kRow, left.begin() + long(t) * kRow + kContent);
      const double a = t < seen ? std::exp(dot(w, rows, t)) / total : 0, e = dot(w, left, t);
      first[t] += a * a * (e * e * norm(less(t, y)) + norm(r)) / kQueries;
      blind[t] += (e * e * norm(less(t, mean)) + norm(r)) / kQueries;
    }
  }
  for (const auto& [rule, want] : {std::pair("query_free", blind), std::pair("first_order", first)}) {
    const auto got = latent_utility(rule, v, *s);
    ASSERT_TRUE(got.ok());
    for (size_t t = 0; t < kCoded; ++t) EXPECT_NEAR((*got)[t], want[t], 1e-4 * (want[t] + 1)) << rule << t;
  }
  v.queries = {};
  const auto plain = latent_utility("first_order", v, *s);
  ASSERT_TRUE(plain.ok());
  double square = 0;
  for (size_t j = 0; j < kRow; ++j) square += double(left[j]) * double(left[j]);
  EXPECT_NEAR((*plain)[0], square, 1e-4);
  EXPECT_FALSE(latent_utility("nobody", v, *s).ok());
}

constexpr int64_t kSinks = 4, kWindow = 32;
const Shape kShape = {{80, 16, DType::kBF16}, 128, 3};

class LatentIndexTest : public ::testing::Test {
 protected:
  std::unique_ptr<LayerCache> cache(double ratio, const Shape& shape = kShape) const {
    return testing::make_cache(shape, "anchor", ratio);
  }
  /// 500 rows (more than a tile of codes), perhaps fitted, then 200 more.
  std::unique_ptr<LayerCache> filled(double ratio, bool fitted, bool more = true, const Shape& shape = kShape) {
    auto c = cache(ratio, shape);
    rows_ = testing::make_rows(700, shape.layout);
    queries_ = testing::make_queries(40, shape.h_q, shape.layout);
    EXPECT_TRUE(c->append(testing::view_rows(rows_, shape.layout, 0, 500), *s_).ok());
    EXPECT_TRUE(!fitted || testing::fit(*c, queries_, *s_).ok());
    EXPECT_TRUE(!more || c->append(testing::view_rows(rows_, shape.layout, 500, 200), *s_).ok());
    return c;
  }
  std::unique_ptr<Stream> s_ = make_stream();
  std::vector<float> rows_, queries_;
};

/// One rotated vector of n rows, from bytes `at` on of rows of `stride` bytes. [n, d]
std::vector<double> decode(const std::vector<uint8_t>& bytes, int64_t stride, int64_t at, int64_t d, int32_t bits,
                           Stream& stream) {
  const int64_t n = static_cast<int64_t>(bytes.size()) / stride;
  std::vector<double> out(static_cast<size_t>(n * d));
  for (int64_t first = 0, width = 4096; first < d; width /= 2) {
    if (width > d - first) continue;
    std::vector<float> x(static_cast<size_t>(width));
    for (int64_t t = 0; t < n; ++t) {
      const uint8_t* from = bytes.data() + t * stride + at;
      std::vector<uint8_t> codes(from, from + width * bits / 8);
      uint16_t scale = uint16_t(from[width * bits / 8] | from[width * bits / 8 + 1] << 8);
      EXPECT_TRUE(ops::decode_rotated({.codes = {codes.data(), DType::kU8, {1, width * bits / 8}},
                                       .scale = {&scale, DType::kF16, {1}},
                                       .bits = bits,
                                       .seed = 42,
                                       .x = {x.data(), DType::kF32, {1, width}}},
                                      stream)
                      .ok());
      for (int64_t j = 0; j < width; ++j)
        out[static_cast<size_t>(t * d + first + j)] = double(x[static_cast<size_t>(j)]);
    }
    at += width * bits / 8 + 2;
    first += width;
  }
  return out;
}

// Sinks, window and tail exactly, all others by their code, each once: against float64 over rows rebuilt from the file.
TEST_F(LatentIndexTest, AttendsEveryRowOnce) {
  for (const bool fitted : {true, false}) {
    auto c = filled(6, fitted);
    const Attended a = testing::attend(*c, queries_.data(), *s_);
    EXPECT_EQ(a.record.n_coded, 640 - kSinks - kWindow);
    const MemoryStore store = testing::saved(*c);
    std::vector<float> rebuilt = rows_;
    const auto sizes = store.values<int64_t>("anchor_sizes");
    const auto mean = store.values<uint16_t>("anchor_mean"), basis = store.values<uint16_t>("anchor_basis");
    int64_t n_residuals = 0;
    for (size_t i = 0; i < sizes.size() / 5; ++i) {
      const int64_t *size = &sizes[5 * i], rank = size[2], d = 96, n = size[1];
      const auto bits = int32_t(size[3]);
      const std::string name = "anchor" + std::to_string(i) + "_";
      const auto codes = store.values<uint8_t>(name + "codes");
      const auto mask = store.values<int64_t>(name + "mask");
      std::vector<uint8_t> rest;
      if (size[4] > 0) rest = store.values<uint8_t>(name + "residuals");
      const int64_t stride = rank * bits / 8 + 2 + 6;
      const auto t = decode(codes, stride, 0, rank, bits, *s_);
      const auto branch = decode(codes, stride, rank * bits / 8 + 2, 16, 2, *s_);
      const auto content = decode(rest, 30, 0, 80, 2, *s_), more = decode(rest, 30, 24, 16, 2, *s_);
      for (int64_t u = 0, r = 0; u < n; ++u) {
        const bool has = (uint64_t(mask[size_t(u / 64)]) >> (u % 64) & 1) != 0;
        for (int64_t j = 0; j < d; ++j) {
          double x = double(bf16_to_f32(mean[size_t(j)]));
          for (int64_t k = 0; j < 80 && k < rank; ++k) {
            x += double(bf16_to_f32(basis[size_t(j * rank + k)])) * t[size_t(u * rank + k)];
          }
          if (j >= 80) x += branch[size_t(u * 16 + j - 80)];
          if (has) x += j < 80 ? content[size_t(r * 80 + j)] : more[size_t(r * 16 + j - 80)];
          rebuilt[size_t((size[0] + u) * d + j)] = float(x);
        }
        r += has ? 1 : 0;
      }
      n_residuals += size[4];
    }
    EXPECT_GT(n_residuals, 0);
    EXPECT_NE(rebuilt, rows_);
    testing::expect_attends(a, queries_.data(), rebuilt, testing::all_ids(700), kShape);
  }
}

TEST_F(LatentIndexTest, BytesFollowTheRatio) {
  int n_held = 0;
  for (const Shape& shape : {kShape, Shape{{512, 64, DType::kBF16}, 320, 4}}) {
    const int64_t block = shape.block_rows;
    const std::vector<float> rows = testing::make_rows(3 * block, shape.layout);
    const std::vector<float> queries = testing::make_queries(40, shape.h_q, shape.layout);
    for (const int64_t n_closed : {block, 3 * block}) {
      for (const double ratio : {2.5, 6.0, 8.7}) {
        auto c = cache(ratio, shape);
        VESTIGE_ASSERT_OK(c->append(testing::view_rows(rows, shape.layout, 0, n_closed), *s_));
        VESTIGE_ASSERT_OK(testing::fit(*c, queries, *s_));
        const int64_t n = n_closed - kSinks - kWindow, index = c->bytes().index;
        const auto sizes = testing::saved(*c).values<int64_t>("anchor_sizes");
        const LatentForm form = form_of(shape.layout, sizes[2], int32_t(sizes[3]));
        EXPECT_EQ(index, latent_bytes(form, n, sizes[4], true));
        const auto budget = int64_t(std::floor(double(n * shape.layout.row_bytes()) / ratio));
        if (latent_bytes(form_of(shape.layout, 8, 2), n, 0, true) > budget) {  // too short: the least there is
          EXPECT_EQ(index, latent_bytes(form_of(shape.layout, 8, 2), n, 0, true));
          continue;
        }
        ++n_held;
        EXPECT_LE(index, budget) << n << " at " << ratio;
        EXPECT_TRUE(sizes[4] == n || index + form.residual_bytes() > budget) << n << " at " << ratio;
      }
    }
  }
  EXPECT_EQ(n_held, 11);
}

TEST_F(LatentIndexTest, ALowerRatioIsNearer) {
  double error[2];
  for (const int i : {0, 1}) {
    auto c = filled(i == 0 ? 3 : 12, true, false);
    const Attended a = testing::attend(*c, queries_.data(), *s_);
    auto full = testing::make_cache(kShape, "full");
    VESTIGE_ASSERT_OK(full->append(testing::view_rows(rows_, kShape.layout, 0, 500), *s_));
    const Attended exact = testing::attend(*full, queries_.data(), *s_);
    error[i] = 0;
    for (size_t j = 0; j < a.out.size(); ++j) error[i] += std::pow(double(a.out[j]) - double(exact.out[j]), 2);
  }
  EXPECT_LT(error[0], 0.5 * error[1]);
}

TEST_F(LatentIndexTest, FilesRoundTripAndDamageIsRefused) {
  auto c = filled(6, true);
  const MemoryStore whole = testing::saved(*c);
  const Attended want = testing::attend(*c, queries_.data(), *s_);
  auto again = cache(6);
  VESTIGE_ASSERT_OK(again->load("", whole));
  EXPECT_TRUE(testing::same_bits(testing::attend(*again, queries_.data(), *s_).out, want.out));
  EXPECT_TRUE(testing::saved(*again).tensors == whole.tensors);
  const auto with = [&](const std::string& name, size_t at, uint8_t byte) {
    MemoryStore store = whole;
    EXPECT_TRUE(store.tensors.contains(name)) << name;
    store.tensors[name].bytes.at(at) = std::byte{byte};
    return cache(6)->load("", store).code();
  };
  const int64_t rank = whole.values<int64_t>("anchor_sizes")[2], bits = whole.values<int64_t>("anchor_sizes")[3];
  const auto scale = static_cast<size_t>(rank * bits / 8 + 1);
  for (const char* name : {"anchor_mean", "anchor_basis"}) {
    MemoryStore store = whole;
    store.tensors[name].bytes[0] = std::byte{0x80};  // bf16 0x7f80: infinite
    store.tensors[name].bytes[1] = std::byte{0x7f};
    EXPECT_EQ(cache(6)->load("", store).code(), StatusCode::kDataLoss) << name;
  }
  for (const char* segment : {"anchor0_", "anchor1_"}) {
    const std::string name = segment;
    EXPECT_EQ(with(name + "mask", 0, uint8_t(whole.values<uint8_t>(name + "mask")[0] ^ 1)), StatusCode::kDataLoss);
    EXPECT_EQ(with(name + "codes", scale, 0x7c), StatusCode::kDataLoss);  // infinite or not a number
    EXPECT_EQ(with(name + "codes", scale, 0xbc), StatusCode::kDataLoss);  // negative
    EXPECT_EQ(with(name + "residuals", 29, 0x7c), StatusCode::kDataLoss);
    for (const char* array : {"codes", "mask", "residuals"}) {
      MemoryStore store = whole;
      store.tensors.erase(name + array);
      EXPECT_FALSE(cache(6)->load("", store).ok()) << array;
    }
  }
  for (size_t field = 0; field < 10; ++field) {
    for (const int64_t value : {int64_t{-1}, int64_t{0}, int64_t{3}, int64_t{1} << 40, INT64_MAX}) {
      MemoryStore store = whole;
      auto& bytes = store.tensors["anchor_sizes"].bytes;
      if (std::memcmp(bytes.data() + 8 * field, &value, 8) == 0) continue;
      std::memcpy(bytes.data() + 8 * field, &value, 8);
      EXPECT_FALSE(cache(6)->load("", store).ok()) << field << " = " << value;
    }
  }
}

TEST_F(LatentIndexTest, RefusesWhatIsNotFinite) {
  auto c = filled(6, false, false);
  std::vector<float> rows(rows_.begin(), rows_.begin() + 128 * 96);
  rows[50 * 96 + 3] = INFINITY;
  auto bad = cache(6);
  VESTIGE_ASSERT_OK(bad->append(testing::view_rows(rows, kShape.layout, 0, 128), *s_));
  const Status status = testing::fit(*bad, queries_, *s_);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("row 50"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace vestige::anchor
