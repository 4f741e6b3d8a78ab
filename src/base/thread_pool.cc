#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
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

// Longer than the gap between two ops of a decode step, shorter than anyone notices.
constexpr std::chrono::microseconds kSpinTime{100};
constexpr int kSpinsPerLook = 64;  // at the clock; how long a pause takes differs ten times between CPUs
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

/// One CPU of every core before the second one of any.
std::vector<int> cores_first(const std::vector<int>& cpus) {
  std::set<std::string> seen;
  std::vector<int> first, second;
  for (int cpu : cpus) (seen.insert(sibling_list(cpu)).second ? first : second).push_back(cpu);
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

int32_t physical_cores() {
  std::set<std::string> cores;
  for (int cpu : allowed_cpus()) cores.insert(sibling_list(cpu));
  return cores.empty() ? 1 : static_cast<int32_t>(cores.size());
}

struct ThreadPool::State {
  // One loop at a time. `gate` announces it and lets workers in: the number of the loop, whether it is closed, and how
  // many workers are inside. The caller closes it when no index is left and waits for those inside alone, so that a
  // worker which the system has not let run holds nobody up. `gate` and what a worker needs to start lie on the line
  // that it polls; `next` is on its own, because everyone writes it.
  static constexpr uint64_t kClosed = uint64_t{1} << 20, kLoop = kClosed << 1, kInside = kClosed - 1;

  std::vector<std::jthread> workers;
  int32_t n_threads = 1;
  bool spin = true;

  alignas(64) std::atomic<uint64_t> gate{kClosed};
  Call call = nullptr;
  const void* body = nullptr;
  int64_t n = 0;
  std::atomic<bool> stop{false};
  alignas(64) std::atomic<int64_t> next{0};
  alignas(64) std::atomic<int32_t> sleepers{0};  // workers that may be waiting for `wake`
  std::mutex mutex;
  std::condition_variable wake;

  std::vector<int32_t> worker_on;  // by CPU: the worker bound to it, 0 = none; empty if workers are not bound
  int spare_cpu = 0;               // where a worker moves that is in the caller's way

  void bind(int32_t worker, int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setaffinity_np(workers[static_cast<size_t>(worker - 1)].native_handle(), sizeof set, &set);
    worker_on[static_cast<size_t>(cpu)] = worker;
  }

  // The caller's own thread is not ours to bind. On a busy machine the system may put it on a worker's CPU and leave it
  // there for seconds, each waiting for the other to be let run: then the worker moves.
  void make_room() {
    const int cpu = worker_on.empty() ? -1 : sched_getcpu();
    if (cpu < 0 || cpu >= static_cast<int>(worker_on.size())) return;
    const int32_t worker = std::exchange(worker_on[static_cast<size_t>(cpu)], 0);
    if (worker == 0) return;
    bind(worker, std::exchange(spare_cpu, cpu));
  }

  void drain(int32_t thread) {
    for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < n;
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      call(body, i, thread);
    }
  }

  /// The gate of a loop other than `seen`.
  uint64_t wait_for_loop(uint64_t seen) {
    const auto start = std::chrono::steady_clock::now();
    for (int spins = 0;; ++spins) {
      if (const uint64_t now = gate.load(std::memory_order_acquire); now / kLoop != seen) return now;
      cpu_relax();
      if (!spin || (spins % kSpinsPerLook == 0 && std::chrono::steady_clock::now() - start > kSpinTime)) break;
    }
    std::unique_lock lock(mutex);
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    wake.wait(lock, [&] { return gate.load(std::memory_order_seq_cst) / kLoop != seen; });
    sleepers.fetch_sub(1, std::memory_order_relaxed);
    return gate.load(std::memory_order_acquire);
  }

  void work(int32_t thread) {
    uint64_t now = wait_for_loop(0);
    while (!stop.load(std::memory_order_relaxed)) {
      if ((now & kClosed) == 0) {
        if (!gate.compare_exchange_weak(now, now + 1, std::memory_order_acquire)) continue;  // `now` is fresh
        drain(thread);
        gate.fetch_sub(1, std::memory_order_release);
      }
      now = wait_for_loop(now / kLoop);
    }
  }

  // A worker counts itself asleep and then looks at `gate`; here `gate` moves and then the sleepers are counted. In
  // the one order of sequentially consistent operations either the worker sees the new loop or this sees the worker;
  // the lock then waits until it is truly asleep. While all of them poll, nothing is locked and no one is called.
  void announce(uint64_t closed) {
    gate.store((gate.load(std::memory_order_relaxed) / kLoop + 1) * kLoop + closed, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) == 0) return;
    { const std::lock_guard lock(mutex); }
    wake.notify_all();
  }
};

ThreadPool::ThreadPool(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int32_t n_threads, bool pin) {
  if (n_threads < 1) return invalid_argument("n_threads = %d, want at least 1", n_threads);
  const std::vector<int> cpus = cores_first(allowed_cpus());
  const auto n_cpus = static_cast<int32_t>(std::max<size_t>(1, cpus.size()));
  auto state = std::make_unique<State>();
  state->n_threads = pin ? std::min(n_threads, n_cpus) : n_threads;
  state->spin = state->n_threads <= n_cpus;
  if (pin) state->worker_on.resize(CPU_SETSIZE);
  state->spare_cpu = cpus.empty() ? 0 : cpus[0];
  State* s = state.get();
  auto pool = std::unique_ptr<ThreadPool>(new ThreadPool(std::move(state)));
  try {
    for (int32_t t = 1; t < s->n_threads; ++t) {
      s->workers.emplace_back([s, t] { s->work(t); });
      if (pin) s->bind(t, cpus[static_cast<size_t>(t)]);
    }
  } catch (const std::exception& e) {
    return internal_error("cannot start %d threads: %s", s->n_threads, e.what());
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true);
  state_->announce(State::kClosed);
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
  s.make_room();
  s.call = call;
  s.body = body;
  s.n = n;
  s.next.store(0, std::memory_order_relaxed);
  s.announce(0);
  s.drain(0);
  s.gate.fetch_or(State::kClosed, std::memory_order_relaxed);
  // The last pieces take microseconds, so spin first; on a machine with other work a worker may not be running at all,
  // and then the core is better given away.
  for (int spins = 0; (s.gate.load(std::memory_order_acquire) & State::kInside) != 0; ++spins) {
    if (spins < kSpinsBeforeYield) {
      cpu_relax();
    } else {
      sched_yield();
    }
  }
}

}  // namespace vestige
