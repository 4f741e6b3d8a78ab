// The paper's needle: one sentence with a five-digit code in corpus text (arXiv:2609.03949v1, needle harness).

#include "eval/tasks/needle/needle.h"

#include "eval/haystack.h"

namespace vestige::eval {

namespace {

constexpr const char* kCities[] = {"Reykjavik", "Montevideo", "Vientiane", "Gaborone", "Ljubljana"};

}  // namespace

Result<Trial> make_needle(TrialSource& source) {
  const std::string city = kCities[source.trial() % 5], code = source.draw().code();
  return haystack(source, Filler::kCorpus, {"The secret passcode for " + city + " is " + code + "."},
                  {{wrap_question("what is the secret passcode for " + city + "?"), " " + code}});
}

TaskInfo needle_task() {
  return {.name = "needle",
          .sentence = "a passcode in corpus text, asked after compression",
          .source = "VestigeKV, Tables 3 to 6",
          .measure = Measure::kIntact,
          .needs_corpus = true,
          .make = make_needle};
}

}  // namespace vestige::eval
