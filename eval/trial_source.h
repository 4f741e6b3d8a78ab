#pragma once

// What trials are made of: text, tokens and random draws, all a function of (seed, task, length, trial).

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/random.h"
#include "vestige/status.h"
#include "vestige/tokenizer.h"

namespace vestige::eval {

/// Draws that are the same on every machine.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  /// Uniform in [0, n); n >= 1, below 2^32.
  int64_t below(int64_t n) {
    return static_cast<int64_t>((static_cast<uint64_t>(random_.next()) * static_cast<uint64_t>(n)) >> 32);
  }
  /// Uniform in [low, high).
  int64_t between(int64_t low, int64_t high) { return low + below(high - low); }
  template <class List>
  const auto& pick(const List& list) {
    return list[static_cast<size_t>(below(static_cast<int64_t>(std::size(list))))];
  }
  template <class T>
  void shuffle(std::vector<T>* list) {
    for (size_t i = list->size(); i > 1; --i) {
      std::swap((*list)[i - 1], (*list)[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
    }
  }
  std::string code() { return std::to_string(between(10000, 99999)); }  ///< five digits, as the paper draws them
  std::string hex(int n_digits);
  /// "quiet-harbour": `n` different keys.
  std::vector<std::string> word_keys(int64_t n);
  /// A sentence of plain words without a number.
  std::string sentence();

 private:
  Pcg32 random_;
};

/// Documents as token ids, an end-of-text token after each.
/// @param bytes UTF-8, a NUL between documents
Result<std::vector<int32_t>> encode_corpus(const Tokenizer& tokenizer, std::string_view bytes);

struct TrialKey {
  const char* task;
  int64_t length;  ///< tokens of the document
  uint64_t seed;
  int32_t trial;
};

class TrialSource {
 public:
  /// @param corpus empty = none. @param max_tokens the model's window
  TrialSource(const Tokenizer& tokenizer, std::span<const int32_t> corpus, int64_t max_tokens, const TrialKey& key);

  Draw& draw() { return draw_; }
  int64_t length() const { return key_.length; }
  int32_t trial() const { return key_.trial; }
  bool has_corpus() const { return !corpus_.empty(); }

  /// length(), or less where the model's window has to hold `n_after` tokens behind the document.
  int64_t n_document(int64_t n_after) const;
  Result<std::vector<int32_t>> encode(const std::string& text) const;
  /// A run of n corpus tokens from a random place. @return InvalidArgument if there is no corpus, or a shorter one
  Result<std::vector<int32_t>> corpus_run(int64_t n);
  /// n tokens of sentences from a small grammar.
  Result<std::vector<int32_t>> own_prose(int64_t n);
  /// corpus_run() if there is a corpus, else own_prose().
  Result<std::vector<int32_t>> filler(int64_t n) { return has_corpus() ? corpus_run(n) : own_prose(n); }

 private:
  const Tokenizer& tokenizer_;
  std::span<const int32_t> corpus_;
  int64_t max_tokens_;
  TrialKey key_;
  Draw draw_;
};

/// `base` with every statement, in this order, put in at random places in [0.1, 0.8) of it.
std::vector<int32_t> scatter(const std::vector<int32_t>& base, const std::vector<std::vector<int32_t>>& statements,
                             Draw& draw);

/// The prompt of `vestige ask`, which the nano model was trained on.
std::string wrap_question(const std::string& question);

}  // namespace vestige::eval
