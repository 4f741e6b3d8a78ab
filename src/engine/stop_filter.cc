#include "engine/stop_filter.h"

#include <algorithm>

namespace vestige {

namespace {

/// Bytes at the end of `text` that begin a stop string; never the inside of a character, since both are whole UTF-8.
size_t begun_stop(std::string_view text, const std::vector<std::string>& stops) {
  size_t most = 0;
  for (const std::string_view stop : stops) {
    for (size_t n = std::min(stop.size(), text.size()); n > most; --n) {
      if (text.ends_with(stop.substr(0, n))) most = n;
    }
  }
  return most;
}

}  // namespace

std::string_view StopFilter::give(size_t n_bytes) {
  const size_t from = text_.size();
  text_ += held_.substr(0, n_bytes);
  held_.erase(0, n_bytes);
  return std::string_view(text_).substr(from);
}

std::string_view StopFilter::add(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    if (!stop.empty()) first = std::min(first, held_.find(stop));
  }
  if (first == std::string::npos) return give(held_.size() - begun_stop(held_, stops_));
  stopped_ = true;
  held_.resize(first);
  return give(first);
}

std::string_view StopFilter::finish() { return give(held_.size()); }

}  // namespace vestige
