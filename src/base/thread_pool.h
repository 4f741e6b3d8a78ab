#pragma once

// One set of pinned workers that runs counted loops. Workers spin a little between loops, then sleep,
// so that a decode step's many short loops cost about a microsecond each and an idle engine costs nothing.

#include <cstdint>
#include <memory>

#include "vestige/status.h"

namespace vestige {

class ThreadPool {
 public:
  /// @param n_threads >= 1, counting the caller, which works too.
  /// @param pin bind each worker to a CPU of its own, those of different cores first; threads past the CPUs that this
  ///     process may use would only take turns and are left out.
  static Result<std::unique_ptr<ThreadPool>> create(int32_t n_threads, bool pin);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int32_t n_threads() const;  ///< that there are

  /// Calls body(i, thread) once for each i in [0, n), each on some thread in [0, n_threads()), and returns
  /// when all are done. Which thread runs which i is not fixed, so a body must write only what i owns.
  /// Not reentrant: a body must not call run().
  template <class Body>
  void run(int64_t n, const Body& body) {
    run_erased(
        n, [](const void* b, int64_t i, int32_t t) { (*static_cast<const Body*>(b))(i, t); }, &body);
  }

 private:
  struct State;
  explicit ThreadPool(std::unique_ptr<State> state);
  using Call = void (*)(const void* body, int64_t i, int32_t thread);
  void run_erased(int64_t n, Call call, const void* body);
  std::unique_ptr<State> state_;
};

/// Physical cores this process may run on, at least 1.
int32_t physical_cores();

}  // namespace vestige
