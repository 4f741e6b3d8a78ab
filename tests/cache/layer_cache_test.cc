// The calls of LayerCache that a caller can get wrong, and sources that cannot be trusted.

#include "tests/cache/cache_fixture.h"

namespace vestige::testing {
namespace {

const Shape kShape = {{48, 16, DType::kBF16}, 64, 2};

std::shared_ptr<const CachePolicy> full_policy() {
  PolicyConfig config;
  config.name = "full";
  return create_policy(config, kShape.layout).value();
}

TEST(LayerCacheTest, CreateRefuses) {
  const auto code = [](const RowLayout& layout, int32_t h, float scale) {
    return LayerCache::create(layout, h, scale, full_policy()).status().code();
  };
  EXPECT_EQ(code({0, 16, DType::kBF16}, 1, 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({16, -1, DType::kBF16}, 1, 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({16, 16, DType::kF16}, 1, 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({16, 16, DType::kBF16}, 0, 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({16, 16, DType::kBF16}, 1, 0), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({16, 16, DType::kBF16}, 1, NAN), StatusCode::kInvalidArgument);
  EXPECT_FALSE(LayerCache::create(kShape.layout, 1, 1, nullptr).ok());
}

TEST(LayerCacheTest, ReserveAndCommitEqualAppend) {
  auto s = make_stream();
  const std::vector<float> rows = make_rows(200, kShape.layout);
  auto a = make_cache(kShape, "vestige"), b = make_cache(kShape, "vestige");
  VESTIGE_ASSERT_OK(a->append(view_rows(rows, kShape.layout, 0, 200), *s));
  for (int64_t done = 0; done < 200;) {
    const int64_t n = std::min<int64_t>({b->rows_until_close(), 200 - done, 40});
    TensorView content, branch;
    VESTIGE_ASSERT_OK(b->reserve(n, &content, &branch));
    ASSERT_EQ(content.dim(0), n);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t k = 0; k < 64; ++k) {
        const uint16_t bits = f32_to_bf16(rows[static_cast<size_t>((done + i) * 64 + k)]);
        (k < 48 ? content.as<uint16_t>() + i * 48 + k : branch.as<uint16_t>() + i * 16 + k - 48)[0] = bits;
      }
    }
    VESTIGE_ASSERT_OK(b->commit(n, *s));
    done += n;
  }
  EXPECT_TRUE(saved(*a).tensors == saved(*b).tensors);
}

TEST(LayerCacheTest, RefusesWrongCounts) {
  auto s = make_stream();
  auto c = make_cache(kShape, "vestige");
  TensorView content, branch;
  EXPECT_FALSE(c->reserve(0, &content, &branch).ok());
  EXPECT_FALSE(c->reserve(65, &content, &branch).ok());
  EXPECT_FALSE(c->commit(1, *s).ok());
  VESTIGE_ASSERT_OK(c->reserve(10, &content, &branch));
  EXPECT_FALSE(c->commit(11, *s).ok());
  VESTIGE_ASSERT_OK(c->commit(5, *s));
  EXPECT_EQ(c->n_rows(), 5);
  EXPECT_FALSE(c->commit(1, *s).ok()) << "a reservation is used up by its commit";
  EXPECT_EQ(c->rows_until_close(), 59);
}

TEST(LayerCacheTest, RefusesWrongShapes) {
  auto s = make_stream();
  auto c = make_cache(kShape, "vestige");
  std::vector<float> x(4 * 64);
  EXPECT_FALSE(c->append(ConstTensorView(x.data(), DType::kF32, {4, 63}), *s).ok());
  EXPECT_FALSE(c->append(ConstTensorView(x.data(), DType::kBF16, {4, 64}), *s).ok());
  VESTIGE_ASSERT_OK(c->append(ConstTensorView(x.data(), DType::kF32, {1, 64}), *s));
  EXPECT_FALSE(c->fit_recall(ConstTensorView(x.data(), DType::kF32, {2, 2, 64}), *s).ok()) << "more queries than rows";
  EXPECT_FALSE(c->fit_recall(ConstTensorView(x.data(), DType::kF32, {4, 64}), *s).ok());
  const ConstTensorView q(x.data(), DType::kF32, {1, 2, 64});
  TensorView out(x.data(), DType::kF32, {1, 2, 47});
  EXPECT_FALSE(c->attend(q, out, {}, nullptr, *s).ok());
  EXPECT_FALSE(c->attend(ConstTensorView(x.data(), DType::kF32, {1, 1, 64}), out, {}, nullptr, *s).ok());
}

TEST(LayerCacheTest, RecordAddsUp) {
  auto s = make_stream();
  const std::vector<float> rows = make_rows(150, kShape.layout), q = make_queries(1, 2, kShape.layout);
  auto c = make_cache(kShape, "streaming", 8);
  VESTIGE_ASSERT_OK(c->append(view_rows(rows, kShape.layout, 0, 150), *s));
  const StepRecord one = attend(*c, q.data(), *s).record;
  EXPECT_EQ(one.n_steps, 1);
  EXPECT_EQ(one.n_kept, 20);
  EXPECT_EQ(one.n_tail, 22);
  EXPECT_EQ(one.n_archived, 108);
  EXPECT_EQ(one.read_bytes, 42 * 128);
  EXPECT_EQ(one.full_bytes, 150 * 128);
  EXPECT_GT(one.attend_us, 0);
  StepRecord sum = one;
  sum.add(one);
  EXPECT_EQ(sum.n_steps, 2);
  EXPECT_EQ(sum.read_bytes, 2 * one.read_bytes);
}

struct HostileCase {
  const char* name;
  std::map<std::string, double> settings;
  size_t n_tensors;
  std::vector<const char*> numbers;  ///< tensors that may hold anything
};
void PrintTo(const HostileCase& c, std::ostream* out) { *out << c.name; }

class HostileSourceTest : public ::testing::TestWithParam<HostileCase> {
 protected:
  std::unique_ptr<LayerCache> cache() const { return make_cache(kShape, "vestige", 8, GetParam().settings); }
  void SetUp() override {
    stream_ = make_stream();
    auto c = cache();
    const std::vector<float> rows = make_rows(200, kShape.layout);
    VESTIGE_ASSERT_OK(c->append(view_rows(rows, kShape.layout, 0, 200), *stream_));
    VESTIGE_ASSERT_OK(fit(*c, make_queries(30, 2, kShape.layout), *stream_));
    store_ = saved(*c);
  }
  template <class T>
  void set(const std::string& name, size_t at, T value) {
    std::memcpy(store_.tensors.at(name).bytes.data() + at * sizeof(T), &value, sizeof(T));
  }
  void expect_refused(StatusCode code = StatusCode::kDataLoss) {
    auto c = cache();
    VESTIGE_ASSERT_OK(c->append(view_rows(make_rows(70, kShape.layout), kShape.layout, 0, 70), *stream_));
    const auto before = saved(*c).tensors;
    const Status status = c->load("", store_);
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_TRUE(saved(*c).tensors == before) << "a refused load changes nothing";
  }
  std::unique_ptr<Stream> stream_;
  MemoryStore store_;
};

TEST_P(HostileSourceTest, EveryTensorIsNeeded) {
  const auto whole = store_.tensors;
  EXPECT_EQ(whole.size(), GetParam().n_tensors);
  for (const auto& [name, tensor] : whole) {
    SCOPED_TRACE(name);
    if (!name.starts_with("z_samples")) {  // as many as there are, perhaps none
      store_.tensors.erase(name);
      expect_refused(StatusCode::kNotFound);
      store_.tensors = whole;
      store_.tensors[name].shape[0] += 1;
      expect_refused();
      store_.tensors = whole;
    }
    store_.tensors[name].dtype = tensor.dtype == DType::kI64 ? DType::kU8 : DType::kI64;
    expect_refused();
    store_.tensors = whole;
  }
}

TEST_P(HostileSourceTest, Counts) {
  const auto whole = store_.tensors;
  const std::pair<size_t, int64_t> cases[] = {{0, -64}, {0, 63}, {0, INT64_MAX}, {0, INT64_MIN},
                                              {0, 256}, {1, -1}, {1, 64},        {1, 9},
                                              {2, -1},  {2, 23}, {2, 1000},      {2, INT64_MAX}};
  for (const auto& [at, value] : cases) {
    SCOPED_TRACE(value);
    set("counts", at, value);
    expect_refused();
    store_.tensors = whole;
  }
}

TEST_P(HostileSourceTest, KeptIds) {
  const auto whole = store_.tensors;
  const size_t last = whole.at("kept_ids").bytes.size() / 4 - 1;
  const std::pair<size_t, int32_t> cases[] = {{0, -1}, {last, 192}, {last, INT32_MAX}, {1, 0}, {last, INT32_MIN}};
  for (const auto& [at, value] : cases) {
    SCOPED_TRACE(value);
    set("kept_ids", at, value);
    expect_refused();
    store_.tensors = whole;
  }
}

TEST_P(HostileSourceTest, Z) {
  for (float z : {NAN, INFINITY, -1.0f, 8.5f}) {
    SCOPED_TRACE(z);
    set("z", 0, z);
    expect_refused();
  }
}

// A code that would read past its row, or divide by nothing.
TEST_P(HostileSourceTest, Codes) {
  const auto whole = store_.tensors;
  if (!whole.contains("code_bits0")) return;
  const auto refuse = [&](auto value, const char* name, size_t at) {
    SCOPED_TRACE(std::string(name) + " " + std::to_string(value));
    set(name, at, value);
    expect_refused();
    store_.tensors = whole;
  };
  for (const int32_t bits : {-1, 9, INT32_MAX, INT32_MIN}) refuse(bits, "code_bits0", 0);
  if (whole.contains("code_bits1")) refuse(9, "code_bits1", 0);
  for (const int64_t n : {int64_t{0}, int64_t{-1}, INT64_MAX, int64_t{3}}) refuse(n, "code_shape", 0);
  for (const int64_t n : {int64_t{0}, int64_t{-1}, INT64_MAX, int64_t{65}}) refuse(n, "code_shape", 1);
  for (const float x : {NAN, 0.0f, -1.0f, INFINITY}) {
    refuse(x, "code_step0", 0);
    refuse(x, "code_norm0", 0);
  }
  for (const float x : {NAN, -1.0f}) {
    for (size_t i = 0; i < 3; ++i) refuse(x, "code_numbers", i);
  }
}

// Numbers are only numbers: NaN scores, rows and sketches load, and nothing reads out of bounds later.
TEST_P(HostileSourceTest, NotANumberIsHarmless) {
  for (const char* name : GetParam().numbers) {
    for (std::byte& b : store_.tensors.at(name).bytes) b = std::byte{0xff};
  }
  auto c = cache();
  VESTIGE_ASSERT_OK(c->load("", store_));
  VESTIGE_ASSERT_OK(c->append(view_rows(make_rows(200, kShape.layout), kShape.layout, 0, 200), *stream_));
  attend(*c, make_queries(1, 2, kShape.layout).data(), *stream_);
  // The sketch is fitted to queries alone; the codes are not fitted to rows that are no numbers, and the cache says so.
  const Status fitted = fit(*c, make_queries(30, 2, kShape.layout), *stream_);
  EXPECT_EQ(fitted.code(), store_.tensors.contains("sketch") ? StatusCode::kOk : StatusCode::kInvalidArgument);
  attend(*c, make_queries(1, 2, kShape.layout).data(), *stream_);
}

INSTANTIATE_TEST_SUITE_P(
    Codecs, HostileSourceTest,
    ::testing::Values(HostileCase{"sketch", paper_settings(), 13, {"score", "residual", "content", "sketch"}},
                      HostileCase{"klt", {}, 23, {"score", "content", "code0", "code1", "code_transform"}},
                      HostileCase{"through", {{"mode", 2}}, 19, {"score", "content", "code0", "code_value"}}),
    [](const auto& test) { return test.param.name; });

TEST(TensorSinkTest, PutRowsLaysPartsEndToEnd) {
  MemoryStore store;
  const float a[] = {1, 2, 3, 4}, b[] = {5, 6};
  const ConstTensorView parts[] = {{a, DType::kF32, {2, 2}}, {b, DType::kF32, {1, 2}}};
  VESTIGE_ASSERT_OK(store.put_rows("x", parts));
  EXPECT_EQ(store.values<float>("x"), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(store.tensors.at("x").shape, (std::vector<int64_t>{3, 2}));
  EXPECT_FALSE(store.put_rows("y", {}).ok());
}

}  // namespace
}  // namespace vestige::testing
