// The second pass of KVzip (arXiv:2505.23416): the model stands at the end of the document, is told to repeat one part
// of it after the other, and the queries of these tokens show which rows the document can be rebuilt from.

#include <algorithm>

#include "engine/sequence.h"

namespace vestige {

namespace {

constexpr int64_t kChunkTokens = 2000;  // of the document, in one repetition; the window has to have room for it
constexpr int64_t kCueTokens = 8;       // the end of the chunk before, so that the model knows where to go on

}  // namespace

/// Tokens that ask for [begin, end) of the document, and those tokens.
static Result<std::vector<int32_t>> repeat_tokens(const Tokenizer& tokenizer, std::span<const int32_t> document,
                                                  int64_t begin, int64_t end) {
  std::vector<int32_t> tokens;
  if (begin == 0) {
    VESTIGE_TRY(tokenizer.encode("\n\nRepeat the previous context exactly:", &tokens));
  } else {
    VESTIGE_TRY(tokenizer.encode("\n\nRepeat the part of the previous context that starts with: ", &tokens));
    const auto cue = document.subspan(static_cast<size_t>(begin - std::min(begin, kCueTokens)),
                                      static_cast<size_t>(std::min(begin, kCueTokens)));
    tokens.insert(tokens.end(), cue.begin(), cue.end());
  }
  const auto part = document.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  tokens.insert(tokens.end(), part.begin(), part.end());
  return tokens;
}

// On a context of its own that attends every row; this one's rows stay as they are.
Status Sequence::repeat_chunk(int64_t begin, int64_t end, int64_t* n_observed) {
  VESTIGE_ASSIGN(const std::vector<int32_t> tokens, repeat_tokens(engine_.tokenizer(), tokens_, begin, end));
  PolicyConfig full;
  full.name = "full";
  full.block_rows = policy_.block_rows;
  full.n_sinks = 0;
  Sequence repeat(engine_);
  VESTIGE_TRY(repeat.prepare(full));
  VESTIGE_TRY(repeat.copy_from(*this));
  VESTIGE_TRY(repeat.check_tokens(tokens).with_context("policy " + policy_.name + " repeats the document behind it"));
  const int64_t first = n_tokens(), n = static_cast<int64_t>(tokens.size());
  repeat.queries_ = std::make_shared<std::vector<QueryStore>>(caches_.size(), QueryStore(INT64_MAX, first));
  repeat.tokens_.insert(repeat.tokens_.end(), tokens.begin(), tokens.end());
  while (repeat.n_computed_ < repeat.n_tokens()) {
    VESTIGE_TRY(repeat.compute_tile(std::min(Model::kTileTokens, repeat.n_tokens() - repeat.n_computed_)));
  }
  for (int64_t at = 0; at < n; at += QueryStore::kSlab) {
    const int64_t count = std::min(QueryStore::kSlab, n - at);
    VESTIGE_TRY(observe(*repeat.queries_, first + at, first + at + count, first + *n_observed + at));
  }
  *n_observed += n;
  return {};
}

Status Sequence::observe_repeat(const ProgressFn& progress) {
  while (observed_until_ < n_tokens()) {
    const int64_t end = std::min(n_tokens(), observed_until_ + kChunkTokens);
    VESTIGE_TRY(repeat_chunk(observed_until_, end, &n_repeated_));
    observed_until_ = end;
    if (progress && !progress(n_computed_, n_tokens())) return cancelled("reading was stopped");
  }
  return {};
}

}  // namespace vestige
