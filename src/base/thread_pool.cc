#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace vestige {

namespace {

// About 50 us of polling: longer than the gap between two ops of a decode step, shorter than anyone notices.
constexpr int kSpins = 20000;
constexpr int kSpinsBeforeYield = 2000;

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int c = 0; c < CPU_SETSIZE; ++c) {
      if (CPU_ISSET(c, &set)) cpus.push_back(c);
    }
  }
  return cpus;
}

std::string sibling_list(int cpu) {
  std::ifstream in("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
  std::string text;
  std::getline(in, text);
  return text.empty() ? std::to_string(cpu) : text;
}

}  // namespace

int32_t physical_cores() {
  std::set<std::string> cores;
  for (int cpu : allowed_cpus()) cores.insert(sibling_list(cpu));
  return cores.empty() ? 1 : static_cast<int32_t>(cores.size());
}

struct ThreadPool::State {
  std::vector<std::jthread> workers;
  int32_t n_threads = 1;

  // One loop at a time. `epoch` announces it; `next` hands out indices; `active` counts workers still in it. The three
  // lie on lines of their own: everyone writes `next` while the caller polls `active` and late workers `epoch`. What a
  // worker needs to start lies on the line that it polls.
  alignas(64) std::atomic<uint64_t> epoch{0};
  Call call = nullptr;
  const void* body = nullptr;
  int64_t n = 0;
  std::atomic<bool> stop{false};
  alignas(64) std::atomic<int64_t> next{0};
  alignas(64) std::atomic<int32_t> active{0};
  alignas(64) std::atomic<int32_t> sleepers{0};  // workers that may be waiting for `wake`
  std::mutex mutex;
  std::condition_variable wake;

  void drain(int32_t thread) {
    for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < n;
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      call(body, i, thread);
    }
  }

  void work(int32_t thread) {
    uint64_t seen = 0;
    while (true) {
      int spins = 0;
      while (epoch.load(std::memory_order_acquire) == seen) {
        if (++spins < kSpins) {
          cpu_relax();
          continue;
        }
        std::unique_lock lock(mutex);
        sleepers.fetch_add(1, std::memory_order_seq_cst);
        wake.wait(lock, [&] { return epoch.load(std::memory_order_seq_cst) != seen; });
        sleepers.fetch_sub(1, std::memory_order_relaxed);
      }
      ++seen;
      if (stop.load(std::memory_order_relaxed)) return;
      drain(thread);
      active.fetch_sub(1, std::memory_order_release);
    }
  }

  // A worker counts itself asleep and then looks at `epoch`; here `epoch` moves and then the sleepers are counted. In
  // the one order of sequentially consistent operations either the worker sees the new epoch or this sees the worker;
  // the lock then waits until it is truly asleep. While all of them poll, nothing is locked and no one is called.
  void announce() {
    epoch.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) == 0) return;
    { const std::lock_guard lock(mutex); }
    wake.notify_all();
  }
};

ThreadPool::ThreadPool(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int32_t n_threads, bool pin) {
  if (n_threads < 1) return invalid_argument("n_threads = %d, want at least 1", n_threads);
  auto state = std::make_unique<State>();
  state->n_threads = n_threads;
  const std::vector<int> cpus = allowed_cpus();
  State* s = state.get();
  auto pool = std::unique_ptr<ThreadPool>(new ThreadPool(std::move(state)));
  try {
    for (int32_t t = 1; t < n_threads; ++t) {
      s->workers.emplace_back([s, t] { s->work(t); });
      // The caller's own thread stays free to move: it is not ours to pin. Worker t takes the t-th core.
      if (pin && n_threads <= static_cast<int32_t>(cpus.size())) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpus[static_cast<size_t>(t)], &set);
        pthread_setaffinity_np(s->workers.back().native_handle(), sizeof set, &set);
      }
    }
  } catch (const std::exception& e) {
    return internal_error("cannot start %d threads: %s", n_threads, e.what());
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true);
  state_->announce();
  state_->workers.clear();
}

int32_t ThreadPool::n_threads() const { return state_->n_threads; }

void ThreadPool::run_erased(int64_t n, Call call, const void* body) {
  State& s = *state_;
  if (n <= 0) return;
  if (n == 1 || s.n_threads == 1) {
    for (int64_t i = 0; i < n; ++i) call(body, i, 0);
    return;
  }
  s.call = call;
  s.body = body;
  s.n = n;
  s.next.store(0, std::memory_order_relaxed);
  s.active.store(s.n_threads - 1, std::memory_order_relaxed);
  s.announce();
  s.drain(0);
  // The last pieces take microseconds, so spin first; on a machine with other work a worker may not be running at all,
  // and then the core is better given away.
  for (int spins = 0; s.active.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < kSpinsBeforeYield) {
      cpu_relax();
    } else {
      sched_yield();
    }
  }
}

}  // namespace vestige
