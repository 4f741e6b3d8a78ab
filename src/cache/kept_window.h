#pragma once

// Rows that are kept by their place: the first ones and a window of the last closed ones.

#include <cstdint>
#include <span>

namespace vestige {

/// Whether `ids`, the kept rows' positions, are [0, n_sinks) and [window, n_closed).
bool is_kept_window(std::span<const int32_t> ids, int64_t n_sinks, int64_t window, int64_t n_closed);

}  // namespace vestige
