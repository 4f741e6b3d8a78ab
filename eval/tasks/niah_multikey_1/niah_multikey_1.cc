#include "eval/magic_numbers.h"

namespace vestige::eval {

namespace {

constexpr int kKeys = 4;

Result<Trial> make_niah_multikey_1(TrialSource& source) {
  const std::vector<std::string> keys = source.draw().word_keys(kKeys);
  const auto asked = static_cast<size_t>(source.draw().below(kKeys));
  std::vector<std::string> statements;
  Question question;
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::string value = source.draw().code();
    statements.push_back(magic_statement(keys[i], value));
    if (i == asked) question = magic_question(keys[i], value);
  }
  return haystack(source, Filler::kCorpusOrProse, statements, {question});
}

}  // namespace

TaskInfo niah_multikey_1_task() {
  return {.name = "niah_multikey_1",
          .sentence = "four magic numbers in text, one is asked",
          .source = "after RULER, niah_multikey_1",
          .measure = Measure::kExact,
          .make = make_niah_multikey_1};
}

}  // namespace vestige::eval
