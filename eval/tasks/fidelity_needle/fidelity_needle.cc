// The measures of task fidelity at the steps of a question and its answer: queries unlike the document's.

#include "eval/tasks/needle/needle.h"

namespace vestige::eval {

TaskInfo fidelity_needle_task() {
  return {.name = "fidelity_needle",
          .sentence = "as fidelity, over question and answer of needle",
          .source = "what certificates promise, measured",
          .measure = Measure::kFidelity,
          .needs_corpus = true,
          .make = make_needle};
}

}  // namespace vestige::eval
