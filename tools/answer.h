#pragma once

// One question to an open .vctx file.

#include <memory>
#include <string>
#include <vector>

#include "tools/report.h"
#include "vestige/engine.h"

namespace vestige::tools {

struct AnswerOptions {
  LoadOptions load;
  int32_t n_tokens = 32;
  bool raw = false;  ///< the text as it is; else wrapped, and ended at the end of the line
};

struct Answer {
  GenerateResult result;
  std::string text;  ///< unless raw, without the space the model puts before it
  int64_t n_question_tokens = 0;
  double load_s = 0;         ///< context from the open file
  double first_token_s = 0;  ///< load, question and first logits
};

/// The tokens to feed. @return InvalidArgument if they do not fit behind the document.
Result<std::vector<int32_t>> encode_question(const Engine& engine, const ContextFile& file, const std::string& question,
                                             bool raw);

/// Starts from the saved state. @return Cancelled after Ctrl-C.
Result<Answer> answer(Engine& engine, const std::shared_ptr<const ContextFile>& file, const std::string& question,
                      const AnswerOptions& options);

Json answer_json(const std::string& question, const Answer& answer, size_t n_layers);

}  // namespace vestige::tools
