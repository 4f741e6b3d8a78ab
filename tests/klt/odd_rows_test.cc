// Documents that a transform has little to say about, and files that lie: an answer or a Status, never a crash.

#include <limits>

#include "tests/cache/cache_fixture.h"

namespace vestige::testing {
namespace {

const Shape kShape{{32, 32, DType::kBF16, false}, 64, 3};
constexpr int64_t kBlock = 64, kWidth = 64, kKept = 4 + 32;
constexpr float kInf = std::numeric_limits<float>::infinity();

class KltOddRows : public ::testing::Test {
 protected:
  /// A cache that holds `rows`, fitted to as many queries as it has rows, or to 40.
  std::unique_ptr<LayerCache> read(const std::vector<float>& rows, Status* status, double ratio = 20,
                                   int32_t n_sinks = 4) {
    PolicyConfig config;
    config.name = "klt";
    config.block_rows = kShape.block_rows;
    config.ratio = ratio;
    config.n_sinks = n_sinks;
    auto policy = create_policy(config, kShape.layout);
    EXPECT_TRUE(policy.ok());
    auto c = LayerCache::create(kShape.layout, kShape.h_q, kShape.scale(), policy.value());
    const auto n = static_cast<int64_t>(rows.size()) / kWidth;
    EXPECT_TRUE((*c)->append(view_rows(rows, kShape.layout, 0, n), *s_).ok());
    *status = fit(**c, make_queries(std::min<int64_t>(n, 40), 3, kShape.layout), *s_);
    return std::move(c).value();
  }
  /// A step, a file, and rows and a step on what was read from it.
  void use(LayerCache& c) {
    const MemoryStore store = saved(c);
    auto again = make_cache(kShape, "klt", c.policy().config().ratio);
    if (c.policy().config().n_sinks == 4) {
      VESTIGE_ASSERT_OK(again->load("", store));
      EXPECT_TRUE(saved(*again).tensors == store.tensors);
    }
    VESTIGE_ASSERT_OK(c.append(view_rows(more_, kShape.layout, 0, 2 * kBlock), *s_));
    for (const float x : attend(c, queries_.data(), *s_).out) EXPECT_TRUE(std::isfinite(x));
  }

  std::unique_ptr<Stream> s_ = make_stream();
  std::vector<float> more_ = make_rows(4 * kBlock, kShape.layout, 11), queries_ = make_queries(40, 3, kShape.layout);
};

TEST_F(KltOddRows, RowsThatAreAllAlikeAreTheirMean) {
  for (const float x : {0.0f, 1.5f, -0x1p-100f}) {
    for (const int64_t n : {kBlock, 3 * kBlock + 7}) {
      Status status;
      const auto c = read(std::vector<float>(static_cast<size_t>(n * kWidth), x), &status);
      VESTIGE_ASSERT_OK(status);
      for (const float y : attend(*c, queries_.data(), *s_).out) EXPECT_NEAR(y, x, 1e-3 * std::abs(x));
      use(*c);
    }
  }
}

TEST_F(KltOddRows, OneRowOfManyDiffers) {
  std::vector<float> rows(static_cast<size_t>(5 * kBlock * kWidth), 0.25f);
  for (int64_t j = 0; j < kWidth; ++j) rows[static_cast<size_t>(70 * kWidth + j)] = 100.0f;
  for (const double ratio : {1.01, 20.0, 1000.0}) {
    Status status;
    const auto c = read(rows, &status, ratio);
    VESTIGE_ASSERT_OK(status);
    use(*c);
  }
}

TEST_F(KltOddRows, ShortDocumentsAndExtremeRatios) {
  for (const double ratio : {1.0, 1.01, 2.0, 20.0, 1000.0, 1e300}) {
    for (const int32_t n_sinks : {0, 4, 16}) {
      for (const int64_t n : {int64_t{1}, kBlock - 1, kBlock, 2 * kBlock + 1}) {
        Status status;
        const auto c = read(make_rows(n, kShape.layout), &status, ratio, n_sinks);
        VESTIGE_ASSERT_OK(status);
        use(*c);
      }
    }
  }
}

TEST_F(KltOddRows, RowsWithoutFiniteMomentsAreRefused) {
  const std::vector<float> plain = make_rows(4 * kBlock, kShape.layout);
  std::vector<std::vector<float>> documents(3, plain);
  documents[0][100 * kWidth] = kInf;  // a value
  documents[1][100 * kWidth + 40] = std::numeric_limits<float>::quiet_NaN();
  for (float& x : documents[2]) x *= 1e30f;  // whose squares float32 does not hold
  for (const std::vector<float>& rows : documents) {
    Status status;
    const auto c = read(rows, &status);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("finite"), std::string::npos) << status.message();
    EXPECT_FALSE(c->rows_dropped());
  }
}

// Every tensor of a file, in turn: gone, of another type or shape, filled with any byte.
TEST_F(KltOddRows, EveryTensorOfAFileIsChecked) {
  Status status;
  const auto c = read(make_rows(20 * kBlock + 9, kShape.layout), &status, 6);
  VESTIGE_ASSERT_OK(status);
  const MemoryStore store = saved(*c);
  const auto load = [&](const MemoryStore& s) { return make_cache(kShape, "klt", 6)->load("", s); };
  VESTIGE_ASSERT_OK(load(store));
  for (const auto& [name, tensor] : store.tensors) {
    MemoryStore bad = store;
    bad.tensors.erase(name);
    EXPECT_FALSE(load(bad).ok()) << name;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      for (const int64_t more : {-1, 1}) {
        bad = store;
        MemoryStore::Tensor& t = bad.tensors.at(name);
        t.shape[i] += more;
        size_t n = dtype_bytes(t.dtype);
        for (const int64_t s : t.shape) n *= static_cast<size_t>(s);
        t.bytes.resize(n);
        EXPECT_EQ(load(bad).code(), StatusCode::kDataLoss) << name << " " << i << " " << more;
      }
    }
    bad = store;
    bad.tensors.at(name).dtype = tensor.dtype == DType::kU8 ? DType::kF8E4M3 : DType::kU8;
    EXPECT_EQ(load(bad).code(), StatusCode::kDataLoss) << name;
  }
}

// Rows that are neither kept nor coded, or both: a file whose sizes all agree, but whose kept rows are not the sinks
// and the window, or will not be.
TEST_F(KltOddRows, KeptRowsAreTheSinksAndTheWindow) {
  Status status;
  const auto c = read(make_rows(20 * kBlock + 9, kShape.layout), &status, 6);
  VESTIGE_ASSERT_OK(status);
  const MemoryStore store = saved(*c);
  for (const size_t i : {3, 4}) {
    MemoryStore other = store;
    reinterpret_cast<int32_t*>(other.tensors.at("kept_ids").bytes.data())[i] = 9;
    EXPECT_EQ(make_cache(kShape, "klt", 6)->load("", other).code(), StatusCode::kDataLoss) << i;
  }
  MemoryStore scored = store, fewer = store;
  reinterpret_cast<float*>(scored.tensors.at("kept_score").bytes.data())[20] += 2000;
  EXPECT_EQ(make_cache(kShape, "klt", 6)->load("", scored).code(), StatusCode::kDataLoss);
  reinterpret_cast<int64_t*>(fewer.tensors.at("counts").bytes.data())[2] = kKept - 1;
  ++*reinterpret_cast<int64_t*>(fewer.tensors.at("dropped").bytes.data());
  for (const char* name : {"kept_ids", "kept_rows", "kept_score"}) {
    MemoryStore::Tensor& t = fewer.tensors.at(name);
    t.bytes.resize(t.bytes.size() / kKept * (kKept - 1));
    t.shape[0] = kKept - 1;
  }
  EXPECT_EQ(make_cache(kShape, "klt", 6)->load("", fewer).code(), StatusCode::kDataLoss);
}

// Any byte of any tensor: refused, or harmless.
TEST_F(KltOddRows, DamagedBytesAreRefusedOrHarmless) {
  Status status;
  const auto c = read(make_rows(20 * kBlock + 9, kShape.layout), &status, 6);
  VESTIGE_ASSERT_OK(status);
  const MemoryStore store = saved(*c);
  std::mt19937 random(4);
  for (const auto& [name, tensor] : store.tensors) {
    for (int trial = 0; trial < 30; ++trial) {
      MemoryStore bad = store;
      auto& bytes = bad.tensors.at(name).bytes;
      constexpr int kValues[] = {0, 0x7f, 0x80, 0xff, 1, 4};
      const size_t n = trial < 6 ? bytes.size() : 1 + random() % 4, at = trial < 6 ? 0 : random() % bytes.size();
      for (size_t i = at; i < std::min(bytes.size(), at + n); ++i) {
        bytes[i] = static_cast<std::byte>(trial < 6 ? kValues[trial] : static_cast<int>(random() % 256));
      }
      auto again = make_cache(kShape, "klt", 6);
      const Status loaded = again->load("", bad);
      if (!loaded.ok()) {
        EXPECT_EQ(loaded.code(), StatusCode::kDataLoss) << name << ": " << loaded.message();
        continue;
      }
      std::vector<float> out(static_cast<size_t>(3 * kShape.layout.d_content));
      const ConstTensorView q(queries_.data(), DType::kF32, {1, 3, kWidth});
      const TensorView to(out.data(), DType::kF32, {1, 3, kShape.layout.d_content});
      VESTIGE_ASSERT_OK(again->append(view_rows(more_, kShape.layout, 0, kBlock), *s_));
      EXPECT_TRUE(again->attend(q, to, {}, nullptr, *s_).ok()) << name << " " << trial;
    }
  }
}

}  // namespace
}  // namespace vestige::testing
