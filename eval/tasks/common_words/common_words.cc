#include <algorithm>

#include "eval/haystack.h"

namespace vestige::eval {

namespace {

constexpr int64_t kCommon = 10, kCommonTimes = 30, kOtherTimes = 3;

/// A shuffled, numbered list: ten words 30 times each, all others 3 times. Where the estimate of its length falls
/// short, the list starts again, which leaves the proportions as they are.
Result<std::vector<int32_t>> word_list(TrialSource& source, int64_t n_tokens, std::vector<std::string>* common) {
  constexpr int64_t kEntryTokens = 8;
  const int64_t n_others = std::max(2 * kCommon, (n_tokens / kEntryTokens - kCommon * kCommonTimes) / kOtherTimes);
  const std::vector<std::string> words = source.draw().word_keys(kCommon + n_others);
  common->assign(words.begin(), words.begin() + kCommon);
  std::vector<std::string> list;
  for (size_t i = 0; i < words.size(); ++i) list.insert(list.end(), i < kCommon ? kCommonTimes : kOtherTimes, words[i]);
  source.draw().shuffle(&list);
  std::vector<int32_t> tokens;
  for (size_t i = 0; static_cast<int64_t>(tokens.size()) < n_tokens; ++i) {
    VESTIGE_ASSIGN(const auto entry, source.encode(std::to_string(i + 1) + ". " + list[i % list.size()] + "\n"));
    tokens.insert(tokens.end(), entry.begin(), entry.end());
  }
  tokens.resize(static_cast<size_t>(n_tokens));
  return tokens;
}

Result<Trial> make_common_words(TrialSource& source) {
  constexpr int64_t kReserved = 192;
  Trial trial;
  std::vector<std::string> common;
  VESTIGE_ASSIGN(trial.document, word_list(source, source.n_document(kReserved), &common));
  std::sort(common.begin(), common.end());
  std::string answer;
  for (const std::string& word : common) answer += (answer.empty() ? " " : ", ") + word;
  VESTIGE_ASSIGN(
      trial.segments.emplace_back().prompt,
      source.encode(wrap_question("What are the ten most common words of the list, in alphabetical order?")));
  VESTIGE_ASSIGN(trial.segments.back().answer, source.encode(answer + "\n"));
  return trial;
}

}  // namespace

TaskInfo common_words_task() {
  return {.name = "common_words",
          .sentence = "a list of words, the ten that come ten times as often are asked",
          .source = "after RULER, cwe",
          .measure = Measure::kExact,
          .make = make_common_words};
}

}  // namespace vestige::eval
