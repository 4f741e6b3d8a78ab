#pragma once

// Wall time of the fastest of some runs: on a shared machine the others measure the neighbours.

#include <algorithm>
#include <chrono>

namespace vestige {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <class F>
double best_of(int n, const F& run) {
  double best = 1e30;
  for (int i = 0; i < n; ++i) {
    const auto start = Clock::now();
    run();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

}  // namespace vestige
