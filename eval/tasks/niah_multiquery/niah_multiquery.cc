#include "eval/magic_numbers.h"

namespace vestige::eval {

namespace {

constexpr int kKeys = 4;

Result<Trial> make_niah_multiquery(TrialSource& source) {
  std::vector<std::string> statements;
  std::vector<Question> questions;
  for (const std::string& key : source.draw().word_keys(kKeys)) {
    const std::string value = source.draw().code();
    statements.push_back(magic_statement(key, value));
    questions.push_back(magic_question(key, value));
  }
  source.draw().shuffle(&statements);
  return haystack(source, Filler::kCorpusOrProse, statements, questions);
}

}  // namespace

TaskInfo niah_multiquery_task() {
  return {.name = "niah_multiquery",
          .sentence = "four magic numbers, asked one after the other",
          .source = "after RULER, niah_multiquery",
          .measure = Measure::kExact,
          .make = make_niah_multiquery};
}

}  // namespace vestige::eval
