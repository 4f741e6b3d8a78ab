// No exception leaves the library, and a call that failed midway leaves a context that says so.

#include <cstdlib>
#include <new>

#include "tests/engine/tiny_engine.h"

namespace {
thread_local int64_t g_allocations_left = -1;  // of this thread, until one fails; -1 = none fails
}  // namespace

// GCC pairs the standard new with these and cannot see that both are malloc's.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(size_t n) {
  if (g_allocations_left >= 0 && g_allocations_left-- == 0) throw std::bad_alloc();
  if (void* p = std::malloc(n == 0 ? 1 : n)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t n, const std::nothrow_t&) noexcept { return std::malloc(n == 0 ? 1 : n); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace vestige {
namespace {

/// The status of `call` with its k-th allocation failing.
template <class Call>
Status failing_at(int64_t k, const Call& call) {
  g_allocations_left = k;
  Status status = call();
  g_allocations_left = -1;
  return status;
}

class FailureTest : public ::testing::Test {
 protected:
  FailureTest() : model_(testing::make_tiny_model(folder_, "model")), engine_(testing::make_engine(model_)) {
    const auto context = testing::read_all(*engine_, testing::small_blocks(), testing::some_tokens(150));
    EXPECT_TRUE(context->save(path(), {}).ok());
  }
  std::string path() const { return folder_.file("a.vctx"); }
  /// Each allocation, later ones in growing steps, until the call needs no more.
  template <class Call>
  void expect_out_of_memory(const Call& call) {
    int64_t n_failed = 0;
    for (int64_t k = 0;; k += 1 + k / 16, ++n_failed) {
      const Status status = failing_at(k, call);
      if (status.ok()) break;
      ASSERT_EQ(status.code(), StatusCode::kOutOfMemory) << "allocation " << k << ": " << status.message();
    }
    EXPECT_GT(n_failed, 3);
  }
  testing::ScratchFolder folder_;
  std::string model_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(FailureTest, OpeningAndLoadingWithoutMemory) {
  const std::string name = path();
  const PolicyConfig policy = testing::small_blocks();
  expect_out_of_memory([&] { return ContextFile::open(name).status(); });
  const auto file = ContextFile::open(name);
  ASSERT_TRUE(file.ok());
  expect_out_of_memory([&] { return Context::load(*engine_, *file).status(); });
  expect_out_of_memory([&] { return Context::create(*engine_, policy).status(); });
  expect_out_of_memory([&] { return Model::load(model_, {}).status(); });
}

TEST_F(FailureTest, AFeedThatFailsMidwayIsRemembered) {
  const auto file = ContextFile::open(path());
  ASSERT_TRUE(file.ok());
  const auto tokens = testing::some_tokens(70, 5);
  int64_t n_broken = 0;
  for (int64_t k = 0;; k += 1 + k / 16) {
    const auto context = Context::load(*engine_, *file);
    ASSERT_TRUE(context.ok());
    const Status status = failing_at(k, [&] { return (*context)->feed(tokens, nullptr); });
    if (status.ok()) break;
    ASSERT_EQ(status.code(), StatusCode::kOutOfMemory) << status.message();
    const Status again = (*context)->feed({tokens.data(), 1}, nullptr);
    if (again.ok()) continue;  // failed before a row was written
    ++n_broken;
    ASSERT_EQ(again.code(), StatusCode::kInvalidArgument);
    ASSERT_NE(again.message().find("unusable"), std::string::npos) << again.message();
    EXPECT_FALSE((*context)->logits().ok());
    EXPECT_FALSE((*context)->save(folder_.file("b.vctx"), {}).ok());
  }
  EXPECT_GT(n_broken, 0);
}

}  // namespace
}  // namespace vestige
