#include "eval/trial_source.h"

#include <algorithm>
#include <iterator>

namespace vestige::eval {

namespace {

uint64_t key_seed(const TrialKey& key) {
  uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  const auto add = [&hash](uint64_t value) {
    for (int i = 0; i < 8; ++i) hash = (hash ^ (value >> (8 * i) & 255)) * 0x100000001b3ull;
  };
  for (const char* c = key.task; *c != '\0'; ++c) add(static_cast<unsigned char>(*c));
  add(static_cast<uint64_t>(key.length));
  add(key.seed);
  add(static_cast<uint64_t>(key.trial));
  return hash;
}

}  // namespace

Result<std::vector<int32_t>> encode_corpus(const Tokenizer& tokenizer, std::string_view bytes) {
  std::vector<int32_t> tokens;
  while (!bytes.empty()) {
    const std::string_view document = bytes.substr(0, bytes.find('\0'));
    VESTIGE_TRY(tokenizer.encode(document, &tokens));
    if (tokenizer.eos_id() && !document.empty()) tokens.push_back(*tokenizer.eos_id());
    bytes.remove_prefix(std::min(document.size() + 1, bytes.size()));
  }
  return tokens;
}

TrialSource::TrialSource(const Tokenizer& tokenizer, std::span<const int32_t> corpus, int64_t max_tokens,
                         const TrialKey& key)
    : tokenizer_(tokenizer), corpus_(corpus), max_tokens_(max_tokens), key_(key), draw_(key_seed(key)) {}

int64_t TrialSource::n_document(int64_t n_after) const {
  return std::max<int64_t>(1, std::min(key_.length, max_tokens_ - n_after));
}

Result<std::vector<int32_t>> TrialSource::encode(const std::string& text) const {
  std::vector<int32_t> tokens;
  VESTIGE_TRY(tokenizer_.encode(text, &tokens));
  return tokens;
}

Result<std::vector<int32_t>> TrialSource::corpus_run(int64_t n) {
  const auto n_corpus = static_cast<int64_t>(corpus_.size());
  if (n_corpus == 0) return invalid_argument("task %s takes its text from a corpus, give one with --corpus", key_.task);
  if (n_corpus < n) {
    return invalid_argument("the corpus has %lld tokens, task %s at %lld tokens wants %lld",
                            static_cast<long long>(n_corpus), key_.task, static_cast<long long>(key_.length),
                            static_cast<long long>(n));
  }
  const auto run = corpus_.subspan(static_cast<size_t>(draw_.below(n_corpus - n + 1)), static_cast<size_t>(n));
  return std::vector<int32_t>(run.begin(), run.end());
}

Result<std::vector<int32_t>> TrialSource::own_prose(int64_t n) {
  std::vector<int32_t> tokens;
  while (static_cast<int64_t>(tokens.size()) < n) {
    std::string paragraph;
    for (int64_t i = draw_.between(3, 9); i > 0; --i) paragraph += draw_.sentence() + (i > 1 ? " " : "\n");
    VESTIGE_TRY(tokenizer_.encode(paragraph, &tokens));
  }
  tokens.resize(static_cast<size_t>(n));
  return tokens;
}

std::vector<int32_t> scatter(const std::vector<int32_t>& base, const std::vector<std::vector<int32_t>>& statements,
                             Draw& draw) {
  const auto n = static_cast<int64_t>(base.size());
  std::vector<int64_t> places;
  for (size_t i = 0; i < statements.size(); ++i)
    places.push_back(draw.between(n / 10, std::max(n / 10 + 1, n * 8 / 10)));
  std::sort(places.begin(), places.end());
  std::vector<int32_t> out;
  int64_t previous = 0;
  for (size_t i = 0; i < statements.size(); ++i) {
    out.insert(out.end(), base.begin() + previous, base.begin() + places[i]);
    out.insert(out.end(), statements[i].begin(), statements[i].end());
    previous = places[i];
  }
  out.insert(out.end(), base.begin() + previous, base.end());
  return out;
}

std::string wrap_question(const std::string& question) { return "\nQuestion: " + question + "\nAnswer:"; }

}  // namespace vestige::eval
