#pragma once

// A task makes trials: a document that is read and compressed, and what is then fed and scored. A task is one folder
// under eval/tasks/ and one line in eval/tasks/registry.cc.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "eval/trial_source.h"
#include "vestige/engine.h"

namespace vestige::eval {

/// Fed after the document: `prompt` as it is, then `answer`, whose tokens are scored (teacher-forced).
struct Segment {
  std::vector<int32_t> prompt, answer;
};

struct Trial {
  std::vector<int32_t> document;  ///< read and compressed before any segment is known
  std::vector<Segment> segments;  ///< one after the other, in one context
};

/// How the outcomes of a task become one figure.
enum class Measure : uint8_t {
  kIntact,    ///< share of trials whose answer costs less than kIntactNats more than under full attention
  kExact,     ///< share of trials in which every answer token is the most likely one
  kText,      ///< mean nats per answer token, and bits per byte
  kNumbers,   ///< named numbers of the model itself (examine), the same for every policy
  kFidelity,  ///< named numbers of each policy: measure_fidelity()
  kCoverage,  ///< likewise: measure_coverage()
};

/// Named numbers of each policy, from its attention at the rows and queries of full attention.
inline bool compares_attention(Measure measure) {
  return measure == Measure::kFidelity || measure == Measure::kCoverage;
}
inline bool has_numbers(Measure measure) { return measure == Measure::kNumbers || compares_attention(measure); }

/// The paper's needle criterion, over all answer tokens together.
inline constexpr double kIntactNats = 1.0;

/// Named numbers; the key may carry a layer: "layer 3 top-1 retention, branch only".
using Numbers = std::map<std::string, double>;

struct TaskInfo {
  const char* name;
  const char* sentence;
  const char* source;  ///< paper, table
  Measure measure;
  bool needs_corpus = false;
  /// Made from (source, length, seed, trial) alone, so every policy sees the same trial.
  Result<Trial> (*make)(TrialSource& source) = nullptr;
  /// Specs that stand in place of the grid's policies; empty = the grid's.
  std::vector<const char*> policies = {};
  /// kNumbers only: looks at the rows and queries of the trial's document.
  Result<Numbers> (*examine)(Engine& engine, const Trial& trial, const ProgressFn& progress) = nullptr;
};

/// Every task of this build, in registry order.
std::vector<TaskInfo> task_infos();

/// @return InvalidArgument naming the known tasks
Result<TaskInfo> find_task(const std::string& name);

}  // namespace vestige::eval
