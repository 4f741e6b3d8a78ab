#include "eval/magic_numbers.h"

namespace vestige::eval {

namespace {

std::string uuid(Draw& draw) {
  const std::string x = draw.hex(32);
  return x.substr(0, 8) + "-" + x.substr(8, 4) + "-" + x.substr(12, 4) + "-" + x.substr(16, 4) + "-" + x.substr(20);
}

Result<Trial> make_niah_multikey_3(TrialSource& source) {
  return look_up(source, [&](int64_t) -> Record {
    const std::string key = uuid(source.draw()), value = uuid(source.draw());
    return {magic_statement(key, value) + "\n", magic_question(key, value)};
  });
}

}  // namespace

TaskInfo niah_multikey_3_task() {
  return {.name = "niah_multikey_3",
          .sentence = "nothing but magic numbers whose keys and values are UUIDs, one is asked",
          .source = "after RULER, niah_multikey_3",
          .measure = Measure::kExact,
          .make = make_niah_multikey_3};
}

}  // namespace vestige::eval
