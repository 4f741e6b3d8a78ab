// Width of the recall sketch: what fires, what is read, what is found (paper, Table 6 and section 4).

#include "eval/tasks/needle/needle.h"

namespace vestige::eval {

TaskInfo rank_sweep_task() {
  return {.name = "rank_sweep",
          .sentence = "needle with recall sketches of 64 to 256 dimensions",
          .source = "VestigeKV, Table 6",
          .measure = Measure::kIntact,
          .needs_corpus = true,
          .make = make_needle,
          .policies = {"vestige@max_recall=0", "vestige@codec=sketch,rule=max,margin=0,quantile=order,sketch_rank=64",
                       "vestige@codec=sketch,rule=max,margin=0,quantile=order,sketch_rank=128",
                       "vestige@codec=sketch,rule=max,margin=0,quantile=order,sketch_rank=192",
                       "vestige@codec=sketch,rule=max,margin=0,quantile=order,sketch_rank=256"}};
}

}  // namespace vestige::eval
