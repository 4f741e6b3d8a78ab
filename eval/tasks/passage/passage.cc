// Text whose end repeats an earlier passage word for word. The form of train/tasks.py.

#include "eval/task.h"

namespace vestige::eval {

namespace {

constexpr int64_t kCue = 16, kCopied = 32;  // tokens that say which passage, and tokens that are scored

Result<Trial> make_passage(TrialSource& source) {
  Trial trial;
  VESTIGE_ASSIGN(std::vector<int32_t> prompt, source.encode("\nRepeat the passage: "));
  const int64_t n = source.n_document(static_cast<int64_t>(prompt.size()) + kCue + kCopied);
  if (n * 7 / 10 <= kCue + kCopied) {
    return invalid_argument("length %lld is too short for task passage, want 100 or more", static_cast<long long>(n));
  }
  VESTIGE_ASSIGN(trial.document, source.corpus_run(n));
  const auto passage = trial.document.begin() + source.draw().between(n / 10, n * 8 / 10 - kCue - kCopied);
  prompt.insert(prompt.end(), passage, passage + kCue);
  trial.segments.push_back({std::move(prompt), {passage + kCue, passage + kCue + kCopied}});
  return trial;
}

}  // namespace

TaskInfo passage_task() {
  return {.name = "passage",
          .sentence = "32 tokens of an earlier passage, copied after its first 16",
          .source = "train/tasks.py, repeat",
          .measure = Measure::kExact,
          .needs_corpus = true,
          .make = make_passage};
}

}  // namespace vestige::eval
