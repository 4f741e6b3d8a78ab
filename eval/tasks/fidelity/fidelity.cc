// How near a policy's attention is to full attention at the same queries, and whether its certificates hold.

#include "eval/task.h"

namespace vestige::eval {

namespace {

constexpr int64_t kSteps = 64;  // tokens of text after the document

Result<Trial> make_fidelity(TrialSource& source) {
  const int64_t n = source.n_document(kSteps);
  VESTIGE_ASSIGN(const std::vector<int32_t> text, source.corpus_run(n + kSteps));
  Trial trial;
  trial.document.assign(text.begin(), text.begin() + n);
  trial.segments.push_back({{}, {text.begin() + n, text.end()}});
  return trial;
}

}  // namespace

TaskInfo fidelity_task() {
  return {.name = "fidelity",
          .sentence = "head outputs and omitted mass against full attention over the next 64 tokens of text",
          .source = "what certificates promise, measured",
          .measure = Measure::kFidelity,
          .needs_corpus = true,
          .make = make_fidelity};
}

}  // namespace vestige::eval
