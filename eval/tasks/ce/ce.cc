// Cross-entropy of text whose first half was compressed (paper, Table 7).

#include "eval/task.h"

namespace vestige::eval {

namespace {

Result<Trial> make_ce(TrialSource& source) {
  const int64_t n = source.n_document(0) / 2 * 2;
  if (n < 2) return invalid_argument("length %lld, task ce wants 2 or more", static_cast<long long>(source.length()));
  VESTIGE_ASSIGN(const std::vector<int32_t> text, source.corpus_run(n));
  Trial trial;
  trial.document.assign(text.begin(), text.begin() + n / 2);
  trial.segments.push_back({{}, {text.begin() + n / 2, text.end()}});
  return trial;
}

}  // namespace

TaskInfo ce_task() {
  return {.name = "ce",
          .sentence = "nats a token of the second half of a text, the first half compressed",
          .source = "VestigeKV, Table 7",
          .measure = Measure::kText,
          .needs_corpus = true,
          .make = make_ce};
}

}  // namespace vestige::eval
