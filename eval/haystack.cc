#include "eval/haystack.h"

#include <algorithm>

namespace vestige::eval {

namespace {

Result<int64_t> add_questions(const TrialSource& source, const std::vector<Question>& questions, Trial* trial) {
  int64_t n_after = 0;
  for (const Question& question : questions) {
    Segment segment;
    VESTIGE_ASSIGN(segment.prompt, source.encode(question.prompt));
    VESTIGE_ASSIGN(segment.answer, source.encode(question.answer));
    n_after += static_cast<int64_t>(segment.prompt.size() + segment.answer.size());
    trial->segments.push_back(std::move(segment));
  }
  return n_after;
}

Status too_short(const TrialSource& source, int64_t n_needed) {
  return invalid_argument("length %lld is too short for this task, which needs %lld tokens",
                          static_cast<long long>(source.length()), static_cast<long long>(n_needed));
}

}  // namespace

Result<Trial> haystack(TrialSource& source, Filler filler, const std::vector<std::string>& statements,
                       const std::vector<Question>& questions, std::optional<double> depth) {
  Trial trial;
  VESTIGE_ASSIGN(const int64_t n_after, add_questions(source, questions, &trial));
  std::vector<std::vector<int32_t>> encoded;
  int64_t n_filler = source.n_document(n_after);
  for (const std::string& statement : statements) {
    VESTIGE_ASSIGN(encoded.emplace_back(), source.encode("\n" + statement + "\n"));
    n_filler -= static_cast<int64_t>(encoded.back().size());
  }
  constexpr int64_t kLeastFiller = 64;
  if (n_filler < kLeastFiller) return too_short(source, source.length() - n_filler + kLeastFiller);
  const bool corpus = filler == Filler::kCorpus || (filler == Filler::kCorpusOrProse && source.has_corpus());
  VESTIGE_ASSIGN(const std::vector<int32_t> base, corpus ? source.corpus_run(n_filler) : source.own_prose(n_filler));
  if (!depth) {
    trial.document = scatter(base, encoded, source.draw());
    return trial;
  }
  const auto place = base.begin() + static_cast<std::ptrdiff_t>(*depth * static_cast<double>(n_filler));
  trial.document.assign(base.begin(), place);
  for (const auto& statement : encoded) trial.document.insert(trial.document.end(), statement.begin(), statement.end());
  trial.document.insert(trial.document.end(), place, base.end());
  return trial;
}

Result<Trial> look_up(TrialSource& source, const std::function<Record(int64_t i)>& record) {
  constexpr int64_t kReserved = 96;  // of the window, for the look-up
  const int64_t n_document = source.n_document(kReserved);
  std::vector<int32_t> tokens;
  std::vector<Question> questions;
  std::vector<int64_t> begins;
  while (static_cast<int64_t>(tokens.size()) < n_document) {
    begins.push_back(static_cast<int64_t>(tokens.size()));
    Record next = record(static_cast<int64_t>(questions.size()));
    VESTIGE_ASSIGN(const std::vector<int32_t> line, source.encode(next.line));
    tokens.insert(tokens.end(), line.begin(), line.end());
    questions.push_back(std::move(next.question));
  }
  const int64_t n_cut = static_cast<int64_t>(tokens.size()) - n_document;
  const auto first = std::lower_bound(begins.begin(), begins.end(), n_cut) - begins.begin();
  const auto n_lines = static_cast<int64_t>(questions.size());
  const int64_t low = std::max<int64_t>(first, n_lines * 5 / 100), high = n_lines * 90 / 100;
  if (high <= low) return too_short(source, static_cast<int64_t>(tokens.size()) * 4);
  Trial trial;
  trial.document.assign(tokens.begin() + n_cut, tokens.end());
  const int64_t asked = source.draw().between(low, high);
  VESTIGE_ASSIGN(const int64_t n_after, add_questions(source, {questions[static_cast<size_t>(asked)]}, &trial));
  if (n_after > kReserved) return internal_error("a look-up of %lld tokens", static_cast<long long>(n_after));
  return trial;
}

}  // namespace vestige::eval
