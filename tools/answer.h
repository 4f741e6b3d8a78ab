#pragma once

// One question to a context.

#include <memory>
#include <string>
#include <vector>

#include "tools/report.h"
#include "vestige/engine.h"

namespace vestige::tools {

struct AnswerOptions {
  int32_t n_tokens = 32;
  bool raw = false;  ///< the text as it is; else wrapped, and ended at the end of the line
};

struct Answer {
  GenerateResult result;
  std::string text;  ///< unless raw, without the space the model puts before it
  int64_t n_question_tokens = 0;
  double load_s = 0;         ///< context from the open file
  double first_token_s = 0;  ///< load_s, question and first logits
};

/// The tokens to feed. @return InvalidArgument if the question is empty, or they do not fit behind n_before tokens.
Result<std::vector<int32_t>> encode_question(const Engine& engine, int64_t n_before, const std::string& question,
                                             bool raw);

/// The context as it stands is asked, and left with question and answer at its end.
/// @param load_s goes into the answer. @return Cancelled after Ctrl-C.
Result<Answer> answer(Engine& engine, Context& context, const std::string& question, const AnswerOptions& options,
                      double load_s);

Json answer_json(const std::string& question, const Answer& answer, size_t n_layers);

}  // namespace vestige::tools
