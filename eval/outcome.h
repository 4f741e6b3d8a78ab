#pragma once

// What one arm made of one trial, and what a gate found: the lines of a results file.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "eval/task.h"
#include "vestige/cache.h"
#include "vestige/status.h"

namespace vestige::eval {

struct Outcome {
  std::string task = {};
  int64_t length = 0;
  int32_t trial = 0;
  std::string arm = {};
  double nats = 0;  ///< summed negative log-likelihood of the answer tokens
  int64_t n_answer = 0, n_answer_bytes = 0;
  bool exact = false;      ///< every answer token was the most likely one (ties: the lower id)
  StepRecord record = {};  ///< of the steps that predicted answer tokens
  Numbers numbers = {};    ///< of tasks that examine the model
};

struct GateOutcome {
  std::string gate = {};  ///< "identity", "fired", "leakage"
  int64_t length = 0;
  std::string subject = {};  ///< the arm or task it was tried on
  bool passed = false;
  std::string detail = {};  ///< one sentence
};

/// One JSON object without a newline.
std::string outcome_line(const Outcome& outcome);
std::string gate_line(const GateOutcome& gate);

struct ResultLine {
  std::optional<Outcome> outcome;
  std::optional<GateOutcome> gate;
};
/// @return DataLoss if the line is neither
Result<ResultLine> parse_result_line(std::string_view line);

}  // namespace vestige::eval
