#pragma once

// Finds the names of added tokens in text, leftmost first, of several at one place the longest.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vestige/status.h"

namespace vestige {

class NameMatcher {
 public:
  struct Match {
    size_t begin, end;
    int32_t id;
  };

  void add(std::string name, int32_t id) { names_.emplace_back(std::move(name), id); }
  /// Sorts the names. @return DataLoss for one that was added twice.
  Status finish();
  const std::vector<std::pair<std::string, int32_t>>& names() const { return names_; }
  /// The first match that begins at `from` or later.
  std::optional<Match> next(std::string_view text, size_t from) const;
  std::optional<int32_t> find(std::string_view name) const;

  /// Calls on_name(id) for each match in the text and on_text(part) for what lies between, in order.
  template <class OnName, class OnText>
  void split(std::string_view text, const OnName& on_name, const OnText& on_text) const {
    size_t at = 0;
    for (std::optional<Match> m = next(text, 0); m; m = next(text, at)) {
      if (m->begin > at) on_text(text.substr(at, m->begin - at));
      on_name(m->id);
      at = m->end;
    }
    if (at < text.size()) on_text(text.substr(at));
  }

 private:
  std::vector<std::pair<std::string, int32_t>> names_;  // sorted by bytes, never empty ones
  std::array<uint32_t, 257> first_{};                   // names whose first byte is b: [first_[b], first_[b + 1])
};

/// As `tokenizers` does it with a null normalizer: names with normalized = false are sought in the whole text, those
/// with true in what is left between.
struct AddedTokenSet {
  NameMatcher raw, normalized;

  /// Sorts both; call once after the last add(). @return DataLoss for a name that was added twice.
  Status finish();
  std::optional<int32_t> find(std::string_view name) const {
    const std::optional<int32_t> id = raw.find(name);
    return id ? id : normalized.find(name);
  }
  template <class OnName, class OnText>
  void split(std::string_view text, const OnName& on_name, const OnText& on_text) const {
    raw.split(text, on_name, [&](std::string_view part) { normalized.split(part, on_name, on_text); });
  }
};

}  // namespace vestige
