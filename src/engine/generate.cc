#include <algorithm>
#include <chrono>

#include "base/guarded.h"
#include "engine/sampler.h"
#include "engine/stop_filter.h"
#include "vestige/engine.h"

namespace vestige {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Status check_options(const GenerateOptions& options) {
  if (options.n_tokens < 0) return invalid_argument("n_tokens = %d, want at least 0", options.n_tokens);
  if (!(options.temperature >= 0 && options.temperature <= 100)) {
    return invalid_argument("temperature = %g, want [0, 100]", static_cast<double>(options.temperature));
  }
  return {};
}

/// Token by token into result->tokens and filter; sets finish_reason.
Status decode(Engine& engine, Context& context, const GenerateOptions& options, StopFilter* filter,
              GenerateResult* result) {
  const ModelInfo& info = engine.model().info();
  const auto give = [&](std::string_view piece) {
    if (piece.empty() || !options.on_text || options.on_text(piece)) return true;
    result->finish_reason = "cancelled";
    return false;
  };
  Sampler sampler(options.temperature, options.seed);
  StreamDecoder decoder(engine.tokenizer());
  bool going = true;
  result->finish_reason = "length";
  while (going && static_cast<int64_t>(result->tokens.size()) < options.n_tokens &&
         context.n_tokens() < info.max_tokens) {
    VESTIGE_ASSIGN(const std::span<const float> logits, context.logits());
    const int32_t token = sampler.pick(logits);
    if (std::find(info.eos_ids.begin(), info.eos_ids.end(), token) != info.eos_ids.end()) {
      result->finish_reason = "stop";
      break;
    }
    result->tokens.push_back(token);
    std::string text;
    if (engine.tokenizer().token_bytes(token)) VESTIGE_TRY(decoder.push(token, &text));
    going = give(filter->add(text));
    if (filter->stopped()) {
      result->finish_reason = "stop";
      going = false;
    }
    StepRecord step;
    VESTIGE_TRY(context.feed({&token, 1}, &step));
    result->record.add(step);
    if (step.n_recalled >= result->worst.n_recalled) result->worst = step;
  }
  std::string rest;
  decoder.finish(&rest);
  if (give(filter->add(rest)) && !filter->stopped()) give(filter->finish());
  return {};
}

}  // namespace

Result<GenerateResult> generate(Engine& engine, Context& context, const GenerateOptions& options) {
  return guarded([&]() -> Result<GenerateResult> {
    VESTIGE_TRY(check_options(options));
    StopFilter filter(options.stop);
    GenerateResult result;
    const auto start = std::chrono::steady_clock::now();
    VESTIGE_TRY(decode(engine, context, options, &filter, &result));
    result.text = filter.text();
    result.decode_s = seconds_since(start);
    return result;
  });
}

}  // namespace vestige
