// Rows as codes in a cache: close to the exact attention where bytes allow, within the budget always, the same after a
// file, and growing block by block.

#include "cache/policies/klt/klt_index.h"

#include "cache/key_turn.h"
#include "tests/cache/cache_fixture.h"

namespace vestige::testing {
namespace {

const Shape kShape{{32, 32, DType::kBF16, false}, 64, 3};
constexpr int64_t kBlock = 64, kSinks = 4, kWindow = 32;

class KltTest : public ::testing::Test {
 protected:
  std::unique_ptr<LayerCache> fitted(double ratio, int64_t n, const KeyRotation& rotation = {}) {
    PolicyConfig config;
    config.name = "klt";
    config.block_rows = kShape.block_rows;
    config.ratio = ratio;
    auto policy = create_policy(config, kShape.layout);
    EXPECT_TRUE(policy.ok());
    auto c = LayerCache::create(kShape.layout, kShape.h_q, kShape.scale(), policy.value(), rotation);
    EXPECT_TRUE((*c)->append(view_rows(rows_, kShape.layout, 0, n), *s_).ok());
    EXPECT_TRUE(fit(**c, queries_, *s_).ok());
    return std::move(c).value();
  }
  /// Largest error of an output, relative to the longest value, over some queries.
  double error_of(LayerCache& c) {
    const int64_t d = kShape.layout.d_row();
    double worst = 0;
    for (int64_t i = 0; i < 10; ++i) {
      const float* q = queries_.data() + i * 3 * d;
      const Attended a = attend(c, q, *s_);
      for (int64_t g = 0; g < 3; ++g) {
        std::vector<double> y(32, 0.0);
        double sum = 0;
        for (int64_t u = 0; u < c.n_rows(); ++u) {
          const float* row = rows_.data() + u * d;
          const double w = std::exp(true_score(q + g * d, row, d, double(kShape.scale())));
          sum += w;
          for (size_t j = 0; j < 32; ++j) y[j] += w * double(row[j]);
        }
        double square = 0;
        for (size_t j = 0; j < 32; ++j) square += std::pow(y[j] / sum - double(a.out[size_t(g) * 32 + j]), 2);
        worst = std::max(worst, std::sqrt(square) / double(a.record.n_coded > 0 ? 6.0 : 1.0));
      }
    }
    return worst;
  }

  std::unique_ptr<Stream> s_ = make_stream();
  std::vector<float> rows_ = make_rows(40 * kBlock, kShape.layout), queries_ = make_queries(40, 3, kShape.layout);
};

TEST_F(KltTest, ErrorFallsWithTheRatioAndBytesKeepTheBudget) {
  double last = 1;
  for (const double ratio : {16.0, 8.0, 4.0, 2.5}) {
    auto c = fitted(ratio, 30 * kBlock + 5);
    EXPECT_TRUE(c->rows_dropped());
    const double budget = double((30 * kBlock - kSinks - kWindow) * 128) / ratio;
    EXPECT_LE(double(c->bytes().index), budget) << ratio;
    EXPECT_GE(double(c->bytes().index), 0.97 * budget) << ratio;
    const double error = error_of(*c);
    EXPECT_LT(error, last) << ratio;
    last = error;
  }
  EXPECT_LT(last, 0.02);
}

TEST_F(KltTest, TurnedKeysAreCodedAsTheyWereBefore) {
  // Keys that are all alike before their turn cost nothing: they are the mean.
  const KeyRotation rotation = {
      {1.0f, 0.3f, 0.1f, 0.03f, 0.01f, 0.003f, 0.001f, 0.0003f, 0.9f, 0.2f, 0.09f, 0.02f, 0.5f, 0.05f, 0.005f, 0.0005f},
      false};
  const int64_t d = kShape.layout.d_row(), n = 20 * kBlock;
  std::vector<float> key(32, 1.0f);
  for (int64_t u = 0; u < n; ++u) {
    std::vector<float> turned = key;
    turn_keys(turned.data(), 1, 32, rotation, u, 1, 1);
    for (size_t j = 0; j < 32; ++j) rows_[size_t(u * d) + 32 + j] = bf16_to_f32(f32_to_bf16(turned[j]));
  }
  auto told = fitted(8, n, rotation), untold = fitted(8, n);
  EXPECT_LT(error_of(*told), 0.5 * error_of(*untold));
}

TEST_F(KltTest, AttendsTheRowsItRebuilds) {
  const int64_t n = 20 * kBlock + 9, d = kShape.layout.d_row();
  auto c = fitted(6, n);
  const Attended a = attend(*c, queries_.data(), *s_);
  std::vector<float> rebuilt(static_cast<size_t>(n * d));
  std::vector<uint8_t> finely(static_cast<size_t>(n));
  VESTIGE_ASSERT_OK(c->rebuild({{rebuilt.data(), DType::kF32, {n, d}}, {finely.data(), DType::kU8, {n}}}, *s_));
  double lse = 0;
  for (int32_t h = 0; h < kShape.h_q; ++h) {
    const std::vector<double> want = attend_f64(queries_.data() + h * d, rebuilt, all_ids(n), kShape, &lse);
    EXPECT_NEAR(a.lse[static_cast<size_t>(h)], lse, 4e-3);  // keys are 16-bit integers in the op
    for (size_t j = 0; j < want.size(); ++j) ASSERT_NEAR(a.out[size_t(h) * want.size() + j], want[j], 6e-3) << j;
  }
  EXPECT_EQ(std::count(finely.begin(), finely.end(), 1), kSinks + kWindow + 9);
}

TEST_F(KltTest, LoadedIsTheSameAndGrows) {
  auto c = fitted(6, 20 * kBlock + 9);
  const MemoryStore store = saved(*c);
  int64_t in_file = 0;
  for (const auto& [name, tensor] : store.tensors) in_file += name.starts_with("klt_") ? tensor.bytes.size() : 0;
  EXPECT_EQ(in_file, c->bytes().index + 4);  // klt_norm
  auto again = make_cache(kShape, "klt", 6);
  VESTIGE_ASSERT_OK(again->load("", store));
  EXPECT_TRUE(saved(*again).tensors == store.tensors);
  const int64_t bytes = c->bytes().index;
  for (LayerCache* cache : {c.get(), again.get()}) {
    VESTIGE_ASSERT_OK(cache->append(view_rows(rows_, kShape.layout, 20 * kBlock + 9, 5 * kBlock), *s_));
    EXPECT_EQ(cache->n_closed(), 25 * kBlock);
  }
  EXPECT_TRUE(saved(*again).tensors == saved(*c).tensors);
  const double each = double(bytes) / (20 * kBlock);
  EXPECT_NEAR(double(c->bytes().index - bytes) / (5 * kBlock), each, 0.5 * each);
  EXPECT_LT(error_of(*c), 0.2);
}

TEST_F(KltTest, WithoutAFitTheFirstStepCodes) {
  auto c = make_cache(kShape, "klt", 4);
  VESTIGE_ASSERT_OK(c->append(view_rows(rows_, kShape.layout, 0, 10 * kBlock + 3), *s_));
  const Attended a = attend(*c, queries_.data(), *s_);
  EXPECT_EQ(a.record.n_coded, 10 * kBlock - kSinks - kWindow);
  EXPECT_TRUE(c->rows_dropped());
  EXPECT_LT(error_of(*c), 0.15);
}

TEST_F(KltTest, DamagedCodesAreRefused) {
  auto c = fitted(6, 20 * kBlock + 9);
  const MemoryStore store = saved(*c);
  const auto load = [&](const MemoryStore& s) { return make_cache(kShape, "klt", 6)->load("", s).code(); };
  ASSERT_EQ(load(store), StatusCode::kOk);
  for (const char* name : {"klt_key_planes", "klt_value_planes", "klt_start", "klt_key_mean", "klt_value_basis_scale",
                           "klt_limits", "klt_unit", "klt_norm"}) {
    MemoryStore bad = store;
    std::fill(bad.tensors.at(name).bytes.begin(), bad.tensors.at(name).bytes.end(), std::byte{0xff});
    EXPECT_EQ(load(bad), StatusCode::kDataLoss) << name;
    bad = store;
    bad.tensors.erase(name);
    EXPECT_NE(load(bad), StatusCode::kOk) << name;
  }
  MemoryStore bad = store;  // another class for one row
  bad.tensors.at("klt_class").bytes[40] ^= std::byte{1};
  EXPECT_EQ(load(bad), StatusCode::kDataLoss);
  bad = store;
  MemoryStore::Tensor& codes = bad.tensors.at("klt_codes");
  codes.bytes.pop_back();
  --codes.shape[1];
  EXPECT_EQ(load(bad), StatusCode::kDataLoss);
}

TEST_F(KltTest, RefusesWindowsBeyondABlock) {
  PolicyConfig config;
  config.name = "klt";
  config.block_rows = kBlock;
  config.settings["window"] = kBlock - 15;
  // Of any rows: flags are checked before those of a model are known.
  for (const RowLayout& layout : {kShape.layout, RowLayout{}}) {
    const Status status = create_policy(config, layout).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("klt.window = 49, want at most"), std::string::npos) << status.message();
  }
}

TEST_F(KltTest, RefusesLayouts) {
  PolicyConfig config;
  config.name = "klt";
  for (const RowLayout& layout : {RowLayout{512, 64}, RowLayout{32, 48, DType::kBF16, false},
                                  RowLayout{12, 12, DType::kBF16, false}, RowLayout{512, 512, DType::kBF16, false}}) {
    EXPECT_EQ(create_policy(config, layout).status().code(), StatusCode::kUnsupported) << layout.d_content;
  }
}

}  // namespace
}  // namespace vestige::testing
