// Also meant for ThreadSanitizer: bodies touch plain memory, so a missing fence is a race.

#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace vestige {
namespace {

std::unique_ptr<ThreadPool> pool_of(int32_t n_threads, bool pin = false) {
  auto pool = ThreadPool::create(n_threads, pin);
  return pool.ok() ? std::move(pool).value() : nullptr;
}

TEST(ThreadPool, RefusesNoThreads) {
  for (int32_t n : {0, -1}) {
    const auto pool = ThreadPool::create(n, false);
    ASSERT_FALSE(pool.ok());
    EXPECT_EQ(pool.status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(ThreadPool, PhysicalCoresIsAtLeastOne) { EXPECT_GE(physical_cores(), 1); }

TEST(ThreadPool, EveryIndexOnceOnAThreadOfThePool) {
  for (int32_t n_threads : {1, 2, 3, 8}) {
    const auto pool = pool_of(n_threads);
    ASSERT_EQ(pool->n_threads(), n_threads);
    for (int64_t n : {0, 1, 2, 7, 1000}) {
      std::vector<int> seen(static_cast<size_t>(n));
      std::atomic<int> strangers{0};
      pool->run(n, [&](int64_t i, int32_t thread) {
        ++seen[static_cast<size_t>(i)];
        if (thread < 0 || thread >= n_threads) ++strangers;
      });
      EXPECT_EQ(strangers, 0);
      EXPECT_EQ(seen, std::vector<int>(static_cast<size_t>(n), 1)) << n_threads << " threads, n = " << n;
    }
  }
}

TEST(ThreadPool, OneThreadRunsInOrderOnTheCaller) {
  const auto pool = pool_of(1);
  const auto caller = std::this_thread::get_id();
  std::vector<int64_t> order;
  pool->run(5, [&](int64_t i, int32_t) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    order.push_back(i);
  });
  EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

// A decode step is hundreds of short loops, each reading what the one before wrote.
TEST(ThreadPool, ManyShortLoopsSeeEachOthersWrites) {
  const auto pool = pool_of(4);
  constexpr int64_t kN = 16;
  std::vector<int64_t> a(kN, 0), b(kN, 0);
  for (int step = 0; step < 500; ++step) {
    pool->run(kN, [&](int64_t i, int32_t) { b[static_cast<size_t>(i)] = a[static_cast<size_t>(kN - 1 - i)] + 1; });
    pool->run(kN, [&](int64_t i, int32_t) { a[static_cast<size_t>(i)] = b[static_cast<size_t>((i + 5) % kN)]; });
  }
  EXPECT_EQ(a, std::vector<int64_t>(kN, 500));
}

TEST(ThreadPool, WorkersWakeAfterTheyFellAsleep) {
  const auto pool = pool_of(3);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // far beyond the spinning
    std::vector<int64_t> out(100);
    pool->run(100, [&](int64_t i, int32_t) { out[static_cast<size_t>(i)] = i; });
    EXPECT_EQ(std::accumulate(out.begin(), out.end(), int64_t{0}), 4950);
  }
}

TEST(ThreadPool, ThreadsWorkAtTheSameTime) {
  const auto pool = pool_of(2);
  std::atomic<int> here{0};
  std::atomic<bool> met{false};
  pool->run(2, [&](int64_t, int32_t) {
    ++here;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (here < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    if (here == 2) met = true;
  });
  EXPECT_TRUE(met);
}

TEST(ThreadPool, WaitsForAWorkerInside) {
  const auto pool = pool_of(2);
  std::atomic<int> here{0};
  bool done = false;
  pool->run(2, [&](int64_t, int32_t thread) {
    ++here;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (here < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    if (thread == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    done = true;
  });
  EXPECT_TRUE(done);
}

TEST(ThreadPool, ComesAndGoesWithoutWork) {
  for (int i = 0; i < 50; ++i) ASSERT_NE(pool_of(1 + i % 4, i % 2 == 0), nullptr);
}

// A worker may come too late for the last loop and find that the pool is closing.
TEST(ThreadPool, ComesAndGoesWithWork) {
  for (int i = 0; i < 300; ++i) {
    const auto pool = pool_of(2 + i % 3);
    int64_t out[4] = {};
    for (int loop = 0; loop < 1 + i % 5; ++loop) {
      pool->run(4, [&](int64_t k, int32_t) { out[k] += k; });
    }
    EXPECT_EQ(out[3], 3 * (1 + i % 5));
  }
}

TEST(ThreadPool, PinnedThreadsAreNoMoreThanTheCpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(pool_of(CPU_COUNT(&set) + 3, true)->n_threads(), CPU_COUNT(&set));
  EXPECT_EQ(pool_of(CPU_COUNT(&set) + 3, false)->n_threads(), CPU_COUNT(&set) + 3);
}

TEST(ThreadPool, TwoPoolsDoNotMix) {
  std::vector<int64_t> sums(2);
  std::vector<std::jthread> callers;
  for (size_t c = 0; c < 2; ++c) {
    callers.emplace_back([&sums, c] {
      const auto pool = pool_of(2);
      std::vector<int64_t> out(50);
      for (int step = 0; step < 200; ++step) {
        pool->run(50, [&](int64_t i, int32_t) { out[static_cast<size_t>(i)] += i; });
      }
      sums[c] = std::accumulate(out.begin(), out.end(), int64_t{0});
    });
  }
  callers.clear();
  EXPECT_EQ(sums, (std::vector<int64_t>{200 * 1225, 200 * 1225}));
}

}  // namespace
}  // namespace vestige
