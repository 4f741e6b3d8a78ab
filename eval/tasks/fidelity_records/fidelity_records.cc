// The measures of task fidelity at the steps of a question and its answer: queries unlike the document's.

#include "eval/tasks/records/records.h"

namespace vestige::eval {

TaskInfo fidelity_records_task() {
  return {.name = "fidelity_records",
          .sentence = "as fidelity, over question and answer of records",
          .source = "what certificates promise, measured",
          .measure = Measure::kFidelity,
          .make = make_records};
}

}  // namespace vestige::eval
