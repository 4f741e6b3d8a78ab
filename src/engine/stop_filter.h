#pragma once

// Ends generated text at a stop string, without ever giving out the beginning of one.

#include <string>
#include <string_view>
#include <vector>

namespace vestige {

class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// Adds text. @return what is now certain to stay, perhaps nothing; valid until the next call.
  std::string_view add(std::string_view text);
  /// What was held back, if no stop string came.
  std::string_view finish();
  bool stopped() const { return stopped_; }
  const std::string& text() const { return text_; }  ///< everything given out

 private:
  std::string_view give(size_t n_bytes);
  std::vector<std::string> stops_;
  std::string held_;  ///< may still become part of a stop string
  std::string text_;
  bool stopped_ = false;
};

}  // namespace vestige
