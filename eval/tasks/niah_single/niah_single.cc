#include "eval/magic_numbers.h"

namespace vestige::eval {

namespace {

Result<Trial> make_niah_single(TrialSource& source) {
  const std::string key = source.draw().word_keys(1)[0], value = source.draw().code();
  return haystack(source, Filler::kProse, {magic_statement(key, value)}, {magic_question(key, value)});
}

}  // namespace

TaskInfo niah_single_task() {
  return {.name = "niah_single",
          .sentence = "one magic number in sentences of our own",
          .source = "after RULER, niah_single_1",
          .measure = Measure::kExact,
          .make = make_niah_single};
}

}  // namespace vestige::eval
