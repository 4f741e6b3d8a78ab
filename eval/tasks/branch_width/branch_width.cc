// How many directions of the branch the salience needs (paper, Table 5).

#include "eval/tasks/needle/needle.h"

namespace vestige::eval {

TaskInfo branch_width_task() {
  return {.name = "branch_width",
          .sentence = "needle, rows kept by the first 4 to 64 principal directions of the branch, no recall",
          .source = "VestigeKV, Table 5",
          .measure = Measure::kIntact,
          .needs_corpus = true,
          .make = make_needle,
          .policies = {"narrow_branch@width=4", "narrow_branch@width=8", "narrow_branch@width=16",
                       "narrow_branch@width=32", "narrow_branch@width=64"}};
}

}  // namespace vestige::eval
