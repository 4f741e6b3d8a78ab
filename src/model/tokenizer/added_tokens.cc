#include "model/tokenizer/added_tokens.h"

#include <algorithm>

namespace vestige {

Status NameMatcher::finish() {
  std::sort(names_.begin(), names_.end());
  for (size_t k = 1; k < names_.size(); ++k) {
    if (names_[k - 1].first == names_[k].first)
      return data_loss("added token \"%.64s\" twice", names_[k].first.c_str());
  }
  uint32_t i = 0;
  for (uint32_t b = 0; b <= 256; ++b) {
    while (i < names_.size() && static_cast<uint8_t>(names_[i].first[0]) < b) ++i;
    first_[b] = i;
  }
  return {};
}

Status AddedTokenSet::finish() {
  VESTIGE_TRY(raw.finish());
  VESTIGE_TRY(normalized.finish());
  for (const auto& [name, id] : normalized.names()) {
    if (raw.find(name)) return data_loss("added token \"%.64s\" twice", name.c_str());
  }
  return {};
}

std::optional<NameMatcher::Match> NameMatcher::next(std::string_view text, size_t from) const {
  if (names_.empty()) return std::nullopt;
  for (size_t at = from; at < text.size(); ++at) {
    const size_t b = static_cast<uint8_t>(text[at]);
    auto low = names_.begin() + first_[b], high = names_.begin() + first_[b + 1];
    std::optional<Match> longest;
    // [low, high) are the names that agree with the text so far; the shortest of them stands first.
    for (size_t depth = 1; low != high; ++depth) {
      if (low->first.size() == depth) {
        longest = Match{at, at + depth, low->second};
        if (++low == high) break;
      }
      if (at + depth >= text.size()) break;
      const uint8_t want = static_cast<uint8_t>(text[at + depth]);
      const auto byte_of = [depth](const auto& name) { return static_cast<uint8_t>(name.first[depth]); };
      low = std::partition_point(low, high, [&](const auto& name) { return byte_of(name) < want; });
      high = std::partition_point(low, high, [&](const auto& name) { return byte_of(name) == want; });
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

std::optional<int32_t> NameMatcher::find(std::string_view name) const {
  const auto it = std::partition_point(names_.begin(), names_.end(), [&](const auto& n) { return n.first < name; });
  if (it == names_.end() || it->first != name) return std::nullopt;
  return it->second;
}

}  // namespace vestige
