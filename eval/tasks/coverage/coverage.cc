// Key errors of attended tokens and the bounds on output errors, over question and answer of needle.

#include "eval/tasks/needle/needle.h"

namespace vestige::eval {

TaskInfo coverage_task() {
  return {.name = "coverage",
          .sentence = "key errors of attended tokens, and whether bounds on the output error hold and say anything",
          .source = "the test that a public review of AnchorKV asks for",
          .measure = Measure::kCoverage,
          .needs_corpus = true,
          .make = make_needle};
}

}  // namespace vestige::eval
