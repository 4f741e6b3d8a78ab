#include "tools/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "tools/interrupt.h"

namespace vestige::tools {

using Clock = std::chrono::steady_clock;

Progress::Progress(std::string label, std::string unit, double per_unit, int64_t n_total, bool quiet)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      per_unit_(per_unit),
      n_total_(n_total),
      shown_(!quiet && isatty(STDERR_FILENO) != 0),
      start_(Clock::now()),
      last_(start_) {
  if (shown_) draw(0, std::max<int64_t>(n_total, 1));
}

Progress::~Progress() {
  if (drawn_) std::fprintf(stderr, "\r\033[K");
}

double Progress::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

ProgressFn Progress::callback() {
  return [this](int64_t n_done, int64_t n_total) {
    const int64_t total = n_total_ > 0 ? n_total_ : n_total;
    const auto now = Clock::now();
    if (shown_ && (now - last_ > std::chrono::milliseconds(100) || n_done == total)) {
      last_ = now;
      draw(n_done, total);
    }
    return !interrupted();
  };
}

void Progress::draw(int64_t n_done, int64_t n_total) {
  constexpr int kWidth = 24;
  const double share = n_total > 0 ? std::min(1.0, static_cast<double>(n_done) / static_cast<double>(n_total)) : 1.0;
  const double elapsed = std::max(seconds(), 1e-9);
  const double rate = static_cast<double>(n_done) / per_unit_ / elapsed;
  const auto filled = static_cast<size_t>(share * kWidth);
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  std::fprintf(stderr, "\r\033[K%s [%s] %3.0f%%", label_.c_str(), bar.c_str(), 100 * share);
  if (n_done > 0) std::fprintf(stderr, "  %.0f %s/s  %.0f s left", rate, unit_.c_str(), elapsed / share * (1 - share));
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace vestige::tools
