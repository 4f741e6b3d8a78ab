#include "eval/task.h"

// One line a task: <name>_task(), which its own folder defines.
#define VESTIGE_EVAL_TASKS(X) \
  X(needle)                   \
  X(records)                  \
  X(passage)                  \
  X(passkey)                  \
  X(niah_single)              \
  X(niah_multikey_1)          \
  X(niah_multikey_2)          \
  X(niah_multikey_3)          \
  X(niah_multivalue)          \
  X(niah_multiquery)          \
  X(variable_tracking)        \
  X(common_words)             \
  X(frequent_words)           \
  X(ce)                       \
  X(anatomy)                  \
  X(branch_width)             \
  X(rank_sweep)               \
  X(merge_census)             \
  X(fidelity)                 \
  X(fidelity_needle)          \
  X(fidelity_records)         \
  X(coverage)

namespace vestige::eval {

#define VESTIGE_DECLARE_TASK(name) TaskInfo name##_task();
VESTIGE_EVAL_TASKS(VESTIGE_DECLARE_TASK)
#undef VESTIGE_DECLARE_TASK

std::vector<TaskInfo> task_infos() {
#define VESTIGE_TASK_ENTRY(name) name##_task(),
  return {VESTIGE_EVAL_TASKS(VESTIGE_TASK_ENTRY)};
#undef VESTIGE_TASK_ENTRY
}

Result<TaskInfo> find_task(const std::string& name) {
  std::string known;
  for (TaskInfo& task : task_infos()) {
    if (name == task.name) return std::move(task);
    known.append(known.empty() ? "" : ", ").append(task.name);
  }
  return invalid_argument("task \"%s\", want one of: %s", name.c_str(), known.c_str());
}

}  // namespace vestige::eval
