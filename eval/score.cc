#include "eval/score.h"

#include <algorithm>
#include <cmath>

#include "eval/reading.h"

namespace vestige::eval {

namespace {

/// What fork() hands to a recall index; too few would be an error there, which names the number.
constexpr int64_t kIndexQueries = 1024;

/// Prompt queries that the arms' indexes and scorers want.
Result<int64_t> n_wanted_queries(Engine& engine, std::span<const Arm> arms) {
  int64_t n = 0;
  for (const CacheLayer& layer : engine.model().info().cache_layers) {
    for (const Arm& arm : arms) {
      VESTIGE_ASSIGN(const auto policy, create_policy(arm.policy, layer.layout));
      if (policy->create_index(layer.layout) != nullptr) n = std::max(n, kIndexQueries);
      if (policy->observes() == ObservedQueries::kPrompt) n = std::max(n, policy->n_observed());
    }
  }
  return n;
}

/// The queries that will be asked, from a reading of document and segments together.
Status observe_future(Engine& engine, Context& context, const Trial& trial, const ProgressFn& progress) {
  const std::vector<int32_t> tokens = whole_text(trial);
  const auto n = static_cast<int64_t>(tokens.size() - trial.document.size());
  if (n == 0) return {};
  VESTIGE_ASSIGN(const Reading reading, read_rows(engine, tokens, n, progress));
  for (size_t i = 0; i < context.caches().size(); ++i) {
    LayerCache* const cache = context.caches()[i];
    const ConstTensorView queries(reading.layers[i].queries.data(), DType::kF32,
                                  {n, cache->h_q(), cache->layout().d_row()});
    VESTIGE_TRY(cache->observe(queries, static_cast<int64_t>(trial.document.size()), engine.stream()));
    VESTIGE_TRY(cache->rescore(engine.stream()));
  }
  return {};
}

bool wants_future(const Context& context) {
  for (const LayerCache* cache : context.caches()) {
    if (cache->policy().observes() == ObservedQueries::kGiven) return true;
  }
  return false;
}

/// Fed one by one, so that logits can be read after each.
Status feed_one(Context& context, int32_t token, StepRecord* record) { return context.feed({&token, 1}, record); }

Status score_segment(Context& context, const Segment& segment, bool last, const StopFn& stop, Outcome* out) {
  if (!segment.prompt.empty()) {
    VESTIGE_TRY(context.feed(std::span(segment.prompt).first(segment.prompt.size() - 1), nullptr));
    VESTIGE_TRY(feed_one(context, segment.prompt.back(), &out->record));
  }
  for (size_t i = 0; i < segment.answer.size(); ++i) {
    VESTIGE_ASSIGN(const std::span<const float> logits, context.logits());
    const TokenScore score = score_token(logits, segment.answer[i]);
    out->nats += score.nats;
    out->exact = out->exact && score.best;
    ++out->n_answer;
    if (stop && stop()) return cancelled("interrupted");
    const bool predicts = i + 1 < segment.answer.size();
    if (predicts || !last) VESTIGE_TRY(feed_one(context, segment.answer[i], predicts ? &out->record : nullptr));
  }
  return {};
}

}  // namespace

std::vector<int32_t> whole_text(const Trial& trial) {
  std::vector<int32_t> tokens = trial.document;
  for (const Segment& segment : trial.segments) {
    tokens.insert(tokens.end(), segment.prompt.begin(), segment.prompt.end());
    tokens.insert(tokens.end(), segment.answer.begin(), segment.answer.end());
  }
  return tokens;
}

TokenScore score_token(std::span<const float> logits, int32_t token) {
  const auto at = static_cast<size_t>(token);
  const auto best = static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - static_cast<double>(logits[best]));
  return {std::log(sum) + static_cast<double>(logits[best]) - static_cast<double>(logits[at]), best == at};
}

Result<std::unique_ptr<Context>> read_document(Engine& engine, std::span<const int32_t> tokens,
                                               std::span<const Arm> arms, const ProgressFn& progress) {
  PolicyConfig full;
  full.name = "full";
  full.ratio = 1;
  full.block_rows = arms[0].policy.block_rows;
  ContextOptions options;
  VESTIGE_ASSIGN(options.n_kept_queries, n_wanted_queries(engine, arms));
  VESTIGE_ASSIGN(auto context, Context::create(engine, full, options));
  VESTIGE_TRY(context->read(tokens, progress));
  VESTIGE_TRY(context->finish_reading(progress));
  return context;
}

Result<std::unique_ptr<Context>> fork_arm(Engine& engine, const Context& base, const Trial& trial, const Arm& arm,
                                          const ProgressFn& progress) {
  VESTIGE_ASSIGN(auto context, base.fork(arm.policy));
  if (wants_future(*context)) VESTIGE_TRY(observe_future(engine, *context, trial, progress));
  return context;
}

Result<Outcome> score_trial(Engine& engine, Context& context, const Trial& trial, const StopFn& stop) {
  Outcome out;
  out.exact = true;
  for (const Segment& segment : trial.segments) {
    std::string text;
    VESTIGE_TRY(engine.tokenizer().decode(segment.answer, &text));
    out.n_answer_bytes += static_cast<int64_t>(text.size());
    VESTIGE_TRY(score_segment(context, segment, &segment == &trial.segments.back(), stop, &out));
  }
  return out;
}

}  // namespace vestige::eval
