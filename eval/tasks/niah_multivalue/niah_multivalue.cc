#include "eval/magic_numbers.h"

namespace vestige::eval {

namespace {

constexpr int kValues = 4;

Result<Trial> make_niah_multivalue(TrialSource& source) {
  const std::string key = source.draw().word_keys(1)[0];
  std::vector<std::string> statements;
  std::string answer;
  for (int i = 0; i < kValues; ++i) {
    const std::string value = source.draw().code();
    statements.push_back(magic_statement(key, value));
    answer += (i == 0 ? " " : ", ") + value;
  }
  const std::string question = "What are all the magic numbers for " + key + ", in the order of the text?";
  return haystack(source, Filler::kCorpusOrProse, statements, {{wrap_question(question), answer + "\n"}});
}

}  // namespace

TaskInfo niah_multivalue_task() {
  return {.name = "niah_multivalue",
          .sentence = "four magic numbers of one key, all are asked",
          .source = "after RULER, niah_multivalue",
          .measure = Measure::kExact,
          .make = make_niah_multivalue};
}

}  // namespace vestige::eval
