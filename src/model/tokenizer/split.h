#pragma once

// Cuts text into the pieces that BPE may not merge across: scanners written by hand for the known split patterns.
// A regex engine would backtrack; these read each character a bounded number of times.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "model/tokenizer/unicode.h"

namespace vestige {

enum class SplitRule : uint8_t {
  kDigits,  // each \p{N} alone, the runs between them whole
  kGpt2,    // ByteLevel's own regex
  kLlama3,  // also GPT-4's cl100k
  kQwen2,   // kLlama3, but numbers one by one
  kO200k,
  kKimi,
};

/// The rule whose regex, as the files write it, is exactly `regex`.
std::optional<SplitRule> split_rule_of_regex(std::string_view regex);

/// A regex of that rule: split_rule_of_regex gives it back. Not of kDigits, which has none.
std::string_view regex_of_split_rule(SplitRule rule);

/// Walks one text: next(0), next(result), ... until the end. The pieces cover it.
class Splitter {
 public:
  Splitter(SplitRule rule, std::string_view text) : rule_(rule), text_(text) {}

  /// End of the piece that begins at `at`, which must be below the size of the text.
  size_t next(size_t at);
  /// Characters looked at so far, for the test that this is linear.
  uint64_t chars_read() const { return chars_read_; }

 private:
  struct Char {
    uint8_t classes;   // 0 past the end
    uint32_t n_bytes;  // 0 past the end
    uint32_t code_point;
  };
  Char read(size_t at) {
    if (at >= text_.size()) return {0, 0, kReplacement};
    ++chars_read_;
    const auto [code_point, n_bytes] = read_utf8(text_, at);
    return {char_class(code_point), n_bytes, code_point};
  }
  size_t run(size_t at, uint8_t classes);
  size_t cased_run(size_t at, uint8_t classes);
  size_t numbers(size_t at, int max);
  size_t contraction(size_t at, bool any_case);
  size_t newlines(size_t at, bool slash);
  size_t symbols(size_t at);
  size_t spaces(size_t at, bool newline_rule);
  size_t upper_lower(size_t at);
  size_t cased_word(size_t at);

  size_t next_digits(size_t at);
  size_t next_gpt2(size_t at);
  size_t next_llama3(size_t at, int max_numbers);
  size_t next_o200k(size_t at);

  SplitRule rule_;
  std::string_view text_;
  uint64_t chars_read_ = 0;
};

/// Applies rules[0], rules[1] to each of its pieces, and so on; calls f(piece) for each of the last.
template <class F>
void for_each_piece(std::span<const SplitRule> rules, std::string_view text, const F& f) {
  if (rules.empty()) {
    f(text);
    return;
  }
  Splitter splitter(rules[0], text);
  for (size_t at = 0; at < text.size();) {
    const size_t end = splitter.next(at);
    for_each_piece(rules.subspan(1), text.substr(at, end - at), f);
    at = end;
  }
}

}  // namespace vestige
