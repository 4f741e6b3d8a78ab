#pragma once

// A bar with rate and time left, on stderr and only if that is a terminal.

#include <chrono>
#include <cstdint>
#include <string>

#include "vestige/engine.h"

namespace vestige::tools {

class Progress {
 public:
  /// @param n_total overrides what the work reports (it may not know); 0 = believe it.
  /// @param per_unit what the rate counts: one token, or 1e6 bytes.
  Progress(std::string label, std::string unit, double per_unit, int64_t n_total, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// For the engine; says "stop" after Ctrl-C.
  ProgressFn callback();
  double seconds() const;

 private:
  void draw(int64_t n_done, int64_t n_total);
  std::string label_, unit_;
  double per_unit_;
  int64_t n_total_;
  bool shown_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace vestige::tools
