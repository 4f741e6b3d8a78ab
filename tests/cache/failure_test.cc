// When memory runs out or a policy throws: a Status comes back, never an exception, and the cache goes on as if the
// failed call had stopped at the rows it counts.

#include <cstdlib>
#include <new>
#include <stdexcept>

#include "tests/cache/cache_fixture.h"

namespace {

// Allocations of this thread until operator new fails; below 0 = never.
thread_local int64_t allocations_left = -1;

void* allocate(size_t n) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void* p = std::malloc(n == 0 ? 1 : n);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace

// GCC pairs the standard new with these and cannot see that both are malloc's.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(size_t n) { return allocate(n); }
void* operator new[](size_t n) { return allocate(n); }
void* operator new(size_t n, const std::nothrow_t&) noexcept { return std::malloc(n == 0 ? 1 : n); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }

namespace vestige::testing {
namespace {

/// Runs `call` with the n-th allocation failing, for n = 0, 1, ... until it says it saw no failure.
template <class Call>
int64_t fail_each_allocation(const Call& call) {
  for (int64_t n = 0; n < 100000; ++n) {
    const bool done = call(n);
    if (done || ::testing::Test::HasFatalFailure()) return n;
  }
  return -1;
}

template <class F>
Status with_allocations(int64_t n, const F& f) {
  allocations_left = n;
  Status status = f();
  allocations_left = -1;
  return status;
}

const Shape kShape{{24, 8, DType::kF32}, 64, 3};
constexpr int64_t kRows = 6 * 64 + 10;

const Shape kCodedShape{{32, 32, DType::kF32, false}, 64, 3};  // rows that are dropped

struct FailureCase {
  const char *name, *backend;
  std::map<std::string, double> settings;
  const char* policy = "vestige";
  const Shape& shape = kShape;
};
void PrintTo(const FailureCase& c, std::ostream* out) { *out << c.name; }

class FailureTest : public ::testing::TestWithParam<FailureCase> {
 protected:
  const RowLayout& layout() const { return GetParam().shape.layout; }
  std::unique_ptr<LayerCache> cache() const {
    return make_cache(GetParam().shape, GetParam().policy, 8, GetParam().settings);
  }
  std::unique_ptr<Stream> s_ = make_stream(1, GetParam().backend);
  std::vector<float> rows_ = make_rows(kRows, layout()), queries_ = make_queries(40, 3, layout());
  ConstTensorView query_view_{queries_.data(), DType::kF32, {40, 3, layout().d_row()}};
};

TEST_P(FailureTest, EachAllocationOfAppendAndFit) {
  auto whole = cache();
  const auto first = view_rows(rows_, layout(), 0, 2 * 64 + 1);
  const auto append_all = [&](LayerCache& c) {
    return c.append(view_rows(rows_, layout(), c.n_rows(), kRows - c.n_rows()), *s_);
  };
  VESTIGE_ASSERT_OK(whole->append(first, *s_));
  VESTIGE_ASSERT_OK(whole->fit_recall(query_view_, *s_));
  VESTIGE_ASSERT_OK(append_all(*whole));
  const MemoryStore want = saved(*whole);
  const Attended step = attend(*whole, queries_.data(), *s_);
  const int64_t n = fail_each_allocation([&](int64_t n_left) {
    auto c = cache();
    bool failed = false;
    const auto check = [&](const Status& status) {
      failed = failed || !status.ok();
      if (!status.ok()) {
        EXPECT_EQ(status.code(), StatusCode::kOutOfMemory) << status.message();
      }
      return status.ok();
    };
    EXPECT_TRUE(c->append(first, *s_).ok());
    if (!check(with_allocations(n_left, [&] { return c->fit_recall(query_view_, *s_); }))) {
      EXPECT_TRUE(c->fit_recall(query_view_, *s_).ok());
    }
    if (!check(with_allocations(n_left, [&] { return append_all(*c); }))) {
      EXPECT_TRUE(append_all(*c).ok());
    }
    EXPECT_TRUE(saved(*c).tensors == want.tensors) << "allocation " << n_left;
    const Attended a = attend(*c, queries_.data(), *s_);
    EXPECT_TRUE(same_bits(a.out, step.out) && same_bits(a.lse, step.lse)) << "allocation " << n_left;
    return !failed;
  });
  EXPECT_GT(n, 10);
}

TEST_P(FailureTest, EachAllocationOfAttendSaveAndLoad) {
  auto c = cache();
  VESTIGE_ASSERT_OK(c->append(view_rows(rows_, layout(), 0, kRows), *s_));
  VESTIGE_ASSERT_OK(c->fit_recall(query_view_, *s_));
  const Attended step = attend(*c, queries_.data(), *s_);
  const MemoryStore want = saved(*c);
  std::vector<float> out(static_cast<size_t>(3 * layout().d_content));
  const auto attend_once = [&] {
    return c->attend({queries_.data(), DType::kF32, {1, 3, layout().d_row()}},
                     {out.data(), DType::kF32, {1, 3, layout().d_content}}, {}, nullptr, *s_);
  };
  int64_t n = fail_each_allocation([&](int64_t n_left) {
    const Status status = with_allocations(n_left, attend_once);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
    }
    return status.ok();
  });
  EXPECT_GT(n, 0);
  EXPECT_TRUE(same_bits(out, step.out));
  n = fail_each_allocation([&](int64_t n_left) {
    MemoryStore store;
    const Status status = with_allocations(n_left, [&] { return c->save("", store); });
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
    }
    return status.ok();
  });
  EXPECT_GT(n, 0);
  auto loaded = cache();
  n = fail_each_allocation([&](int64_t n_left) {
    const Status status = with_allocations(n_left, [&] { return loaded->load("", want); });
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
      EXPECT_EQ(loaded->n_rows(), 0);
    }
    return status.ok();
  });
  EXPECT_GT(n, 0);
  EXPECT_TRUE(saved(*loaded).tensors == want.tensors);
}

TEST(CreateFailureTest, EachAllocation) {
  std::unique_ptr<LayerCache> made;
  const std::shared_ptr<const CachePolicy> policy = create_policy({}, kShape.layout).value();
  const int64_t n = fail_each_allocation([&](int64_t n_left) {
    std::shared_ptr<const CachePolicy> own = policy;
    allocations_left = n_left;
    auto result = LayerCache::create(kShape.layout, 3, 1.0f, std::move(own));
    allocations_left = -1;
    if (!result.ok()) {
      EXPECT_EQ(result.status().code(), StatusCode::kOutOfMemory);
    }
    return result.ok();
  });
  EXPECT_GT(n, 0);
}

/// A policy whose author did not know that the library has no exceptions.
class ThrowingPolicy final : public CachePolicy {
 public:
  ThrowingPolicy() { config_.block_rows = 64; }
  const PolicyConfig& config() const override { return config_; }
  Status score_block(const ConstTensorView&, const ConstTensorView&, int64_t, const TensorView&,
                     Stream&) const override {
    throw std::runtime_error("no");
  }

 private:
  PolicyConfig config_;
};

INSTANTIATE_TEST_SUITE_P(Codecs, FailureTest,
                         ::testing::Values(FailureCase{"sketch", "ref", paper_settings({{"sketch_rank", 16}})},
                                           FailureCase{"klt", "cpu", {{"refine_bytes", 8}}},
                                           FailureCase{"through", "cpu", {{"mode", 2}}},
                                           FailureCase{"anchor", "cpu", {}, "anchor", kCodedShape},
                                           FailureCase{"planes", "cpu", {}, "klt", kCodedShape},
                                           FailureCase{"kivi", "cpu", {{"window", 20}}, "kivi", kCodedShape},
                                           FailureCase{"rotated", "cpu", {{"window", 20}}, "turboquant", kCodedShape}),
                         [](const auto& test) { return test.param.name; });

TEST(ThrowingPolicyTest, APolicyThatThrowsIsAnInternalError) {
  const auto s_ = make_stream(1, "ref");
  const std::vector<float> rows_ = make_rows(64, kShape.layout);
  auto c = LayerCache::create(kShape.layout, 3, 1.0f, std::make_shared<ThrowingPolicy>());
  ASSERT_TRUE(c.ok());
  EXPECT_EQ((*c)->append(view_rows(rows_, kShape.layout, 0, 64), *s_).code(), StatusCode::kInternal);
  EXPECT_EQ((*c)->n_rows(), 64);
  EXPECT_EQ((*c)->commit(0, *s_).code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace vestige::testing
