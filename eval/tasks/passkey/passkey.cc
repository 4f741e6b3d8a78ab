// AnchorKV's NIAH-64: a passkey of 64 digits in filler text, at ten depths by trial.

#include "eval/haystack.h"
#include "eval/task.h"

namespace vestige::eval {

namespace {

constexpr int32_t kDigits = 64, kDepths = 10;

Result<Trial> make_passkey(TrialSource& source) {
  std::string key;
  for (int32_t i = 0; i < kDigits; ++i) key += static_cast<char>('0' + source.draw().between(0, 10));
  const double depth = (source.trial() % kDepths + 0.5) / kDepths;
  return haystack(source, Filler::kCorpusOrProse, {"The passkey is " + key + ". Remember it."},
                  {{wrap_question("what is the passkey?"), " " + key}}, depth);
}

}  // namespace

TaskInfo passkey_task() {
  return {.name = "passkey",
          .sentence = "a passkey of 64 digits; trial i at depth (i mod 10 + 0.5) / 10",
          .source = "AnchorKV, NIAH-64",
          .measure = Measure::kExact,
          .make = make_passkey};
}

}  // namespace vestige::eval
