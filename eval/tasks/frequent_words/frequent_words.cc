#include <cmath>

#include "eval/haystack.h"

namespace vestige::eval {

namespace {

constexpr int kWords = 50, kAsked = 3;

/// Made-up words, the k-th as often as k^-2 (zeta with exponent 2), so that the order of the first three is certain.
Result<Trial> make_frequent_words(TrialSource& source) {
  constexpr int64_t kReserved = 96;
  const int64_t n = source.n_document(kReserved);
  std::vector<std::string> words;
  std::vector<double> upto;
  double total = 0;
  for (int k = 1; k <= kWords; ++k) {
    std::string word;
    for (int i = 0; i < 6; ++i) word += static_cast<char>('a' + source.draw().below(26));
    words.push_back(word);
    upto.push_back(total += 1.0 / k / k);
  }
  Trial trial;
  while (static_cast<int64_t>(trial.document.size()) < n) {
    const double at = static_cast<double>(source.draw().below(1 << 30)) / (1 << 30) * total;
    size_t k = 0;
    while (upto[k] <= at) ++k;
    VESTIGE_ASSIGN(const auto entry, source.encode(" " + words[k]));
    trial.document.insert(trial.document.end(), entry.begin(), entry.end());
  }
  trial.document.resize(static_cast<size_t>(n));
  std::string answer;
  for (int k = 0; k < kAsked; ++k) answer += (k == 0 ? " " : ", ") + words[static_cast<size_t>(k)];
  const std::string question = "What are the three most frequent words, the most frequent first?";
  VESTIGE_ASSIGN(trial.segments.emplace_back().prompt, source.encode(wrap_question(question)));
  VESTIGE_ASSIGN(trial.segments.back().answer, source.encode(answer + "\n"));
  return trial;
}

}  // namespace

TaskInfo frequent_words_task() {
  return {.name = "frequent_words",
          .sentence = "made-up words of falling frequency, the three most frequent are asked",
          .source = "after RULER, fwe",
          .measure = Measure::kExact,
          .make = make_frequent_words};
}

}  // namespace vestige::eval
