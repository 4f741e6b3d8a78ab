#include "cache/kept_window.h"

namespace vestige {

bool is_kept_window(std::span<const int32_t> ids, int64_t n_sinks, int64_t window, int64_t n_closed) {
  bool right = static_cast<int64_t>(ids.size()) == n_sinks + n_closed - window;
  for (size_t i = 0; right && i < ids.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    right = ids[i] == at + (at < n_sinks ? 0 : window - n_sinks);
  }
  return right;
}

}  // namespace vestige
