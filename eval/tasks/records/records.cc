// `key: value` lines of eight hex digits fill the context; one is recalled. The form of train/tasks.py.

#include "eval/tasks/records/records.h"

#include "eval/haystack.h"

namespace vestige::eval {

Result<Trial> make_records(TrialSource& source) {
  return look_up(source, [&source](int64_t) -> Record {
    const std::string key = source.draw().hex(8), value = source.draw().hex(8);
    return {key + ": " + value + "\n", {"\nRecall " + key + ":", " " + value + "\n"}};
  });
}

TaskInfo records_task() {
  return {.name = "records",
          .sentence = "look-alike key: value lines fill the context, one is looked up",
          .source = "the weak point of the authors' engine (multi-key, MRCR)",
          .measure = Measure::kExact,
          .make = make_records};
}

}  // namespace vestige::eval
