#include "model/scratch.h"

#include <gtest/gtest.h>

namespace vestige {
namespace {

void* take(Scratch& scratch, int64_t n_floats) {
  auto view = scratch.take({n_floats});
  EXPECT_TRUE(view.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(view->data) % 64, 0u);
  std::fill_n(view->as<float>(), n_floats, 1.0f);  // a sanitizer sees a view past its block
  return view->data;
}

TEST(ScratchTest, FramesGiveTheSameMemoryAgain) {
  Scratch scratch;
  void *first = nullptr, *inner = nullptr;
  for (int round = 0; round < 3; ++round) {
    const Scratch::Frame frame(scratch);
    void* a = take(scratch, 5);
    void* b = nullptr;
    {
      const Scratch::Frame nested(scratch);
      b = take(scratch, 1000);
    }
    EXPECT_EQ(take(scratch, 7), b) << "the nested frame ended";
    EXPECT_NE(a, b);
    EXPECT_TRUE(round == 0 || (a == first && b == inner));
    first = a;
    inner = b;
  }
}

TEST(ScratchTest, GrowsWithoutMovingAndCompacts) {
  constexpr int64_t kLarge = 1 << 20;
  Scratch scratch;
  for (int round = 0; round < 2; ++round) {
    const Scratch::Frame frame(scratch);
    auto small = scratch.take({16});
    ASSERT_TRUE(small.ok());
    small->as<float>()[0] = 42.0f;
    for (int i = 0; i < 3; ++i) take(scratch, kLarge);
    EXPECT_EQ(small->as<float>()[0], 42.0f);
  }
  ASSERT_TRUE(scratch.compact().ok());
  const Scratch::Frame frame(scratch);
  auto* a = static_cast<std::byte*>(take(scratch, kLarge));
  EXPECT_EQ(take(scratch, kLarge), a + kLarge * 4) << "one block now";
}

TEST(ScratchTest, ClearGivesTheMemoryBack) {
  Scratch scratch;
  {
    const Scratch::Frame frame(scratch);
    take(scratch, 3);
  }
  scratch.clear();
  const Scratch::Frame frame(scratch);
  take(scratch, 3);
}

}  // namespace
}  // namespace vestige
