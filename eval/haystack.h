#pragma once

// The shape most tasks share: statements in or instead of filler text, then questions.

#include <optional>
#include <string>
#include <vector>

#include "eval/task.h"

namespace vestige::eval {

struct Question {
  std::string prompt, answer;
};

enum class Filler : uint8_t {
  kCorpus,         ///< the corpus, which must be there
  kCorpusOrProse,  ///< the corpus if there is one, else sentences of our own
  kProse,          ///< sentences of our own
};

/// Statements at random places in [0.1, 0.8) of a document of filler text, or all of them at `depth`, a share of it.
/// @return InvalidArgument if the length is too short for the statements
Result<Trial> haystack(TrialSource& source, Filler filler, const std::vector<std::string>& statements,
                       const std::vector<Question>& questions, std::optional<double> depth = {});

/// A document of lines that all look alike, cut at its front to the exact length, and a look-up of one of them.
/// @param lines more of them than fit. @param keys that `ask` turns into a question; key i stands in line i
/// The line asked about lies whole in the document, between 5% and 90% of its lines.
struct Record {
  std::string line;
  Question question;
};
Result<Trial> look_up(TrialSource& source, const std::function<Record(int64_t i)>& record);

}  // namespace vestige::eval
