#include "eval/haystack.h"

namespace vestige::eval {

namespace {

constexpr int kHops = 4;

std::string variable(Draw& draw) {
  std::string name;
  for (int i = 0; i < 5; ++i) name += static_cast<char>('A' + draw.below(26));
  return name;
}

Result<Trial> make_variable_tracking(TrialSource& source) {
  const std::string value = source.draw().code();
  std::vector<std::string> statements;
  std::string names, previous;
  for (int i = 0; i <= kHops; ++i) {
    const std::string name = variable(source.draw());
    statements.push_back("VAR " + name + " = " + (i == 0 ? value : "VAR " + previous) + ".");
    names += (i == 0 ? " " : ", ") + name;
    previous = name;
  }
  const std::string question = "Which variables have the value " + value + ", in the order of the text?";
  return haystack(source, Filler::kProse, statements, {{wrap_question(question), names + "\n"}});
}

}  // namespace

TaskInfo variable_tracking_task() {
  return {.name = "variable_tracking",
          .sentence = "a chain of five assignments, all names with the first value are asked",
          .source = "after RULER, vt",
          .measure = Measure::kExact,
          .make = make_variable_tracking};
}

}  // namespace vestige::eval
