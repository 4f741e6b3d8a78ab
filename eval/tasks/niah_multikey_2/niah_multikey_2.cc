#include "eval/magic_numbers.h"

namespace vestige::eval {

namespace {

Result<Trial> make_niah_multikey_2(TrialSource& source) {
  constexpr int64_t kLeastLineTokens = 8;
  const std::vector<std::string> keys = source.draw().word_keys(source.length() / kLeastLineTokens + 1);
  return look_up(source, [&](int64_t i) -> Record {
    const std::string& key = keys[static_cast<size_t>(i) % keys.size()];
    const std::string value = source.draw().code();
    return {magic_statement(key, value) + "\n", magic_question(key, value)};
  });
}

}  // namespace

TaskInfo niah_multikey_2_task() {
  return {.name = "niah_multikey_2",
          .sentence = "nothing but magic numbers of different words, one is asked",
          .source = "after RULER, niah_multikey_2",
          .measure = Measure::kExact,
          .make = make_niah_multikey_2};
}

}  // namespace vestige::eval
