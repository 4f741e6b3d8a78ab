#pragma once

// One arm on one trial.

#include <functional>

#include "eval/arm.h"
#include "eval/outcome.h"
#include "eval/task.h"

namespace vestige::eval {

/// Looked at now and then; true = stop (the work then returns Cancelled).
using StopFn = std::function<bool()>;

/// A context that has read `tokens` under full attention and can be forked to every one of `arms`.
Result<std::unique_ptr<Context>> read_document(Engine& engine, std::span<const int32_t> tokens,
                                               std::span<const Arm> arms, const ProgressFn& progress);

/// The document and all segments, in order.
std::vector<int32_t> whole_text(const Trial& trial);

/// `base` under the arm's policy. A policy that wants given queries (oracle) gets those of the trial's segments, which
/// costs a second reading.
Result<std::unique_ptr<Context>> fork_arm(Engine& engine, const Context& base, const Trial& trial, const Arm& arm,
                                          const ProgressFn& progress);

/// Feeds the segments token by token, scores the answers (nats, n_answer, n_answer_bytes, exact), and records the steps
/// that predict answer tokens.
Result<Outcome> score_trial(Engine& engine, Context& context, const Trial& trial, const StopFn& stop);

/// -log softmax(logits)[token] in float64, and whether the token is the most likely one (ties: the lower id).
struct TokenScore {
  double nats = 0;
  bool best = false;
};
TokenScore score_token(std::span<const float> logits, int32_t token);

}  // namespace vestige::eval
