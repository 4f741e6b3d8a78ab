#include "tools/answer.h"

#include <algorithm>
#include <chrono>
#include <span>

#include "tools/interrupt.h"

namespace vestige::tools {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

Result<std::vector<int32_t>> encode_question(const Engine& engine, int64_t n_before, const std::string& question,
                                             bool raw) {
  // A raw question may be a line break; an empty one, in either form, asks nothing.
  if (question.empty() || (!raw && question.find_first_not_of(" \t\r\n") == std::string::npos)) {
    return invalid_argument("a question is empty, want at least one character that is not a space");
  }
  std::vector<int32_t> tokens;
  VESTIGE_TRY(engine.tokenizer().encode(raw ? question : "\nQuestion: " + question + "\nAnswer:", &tokens));
  const int64_t needed = n_before + static_cast<int64_t>(tokens.size());
  const int64_t allowed = engine.model().info().max_tokens;
  if (needed <= allowed) return tokens;
  return invalid_argument("question \"%.40s\": %lld tokens are needed, the model's window allows %lld",
                          question.c_str(), static_cast<long long>(needed), static_cast<long long>(allowed));
}

Result<Answer> answer(Engine& engine, Context& context, const std::string& question, const AnswerOptions& options,
                      double load_s) {
  Answer out;
  const auto start = Clock::now();
  out.load_s = load_s;
  VESTIGE_ASSIGN(const std::vector<int32_t> tokens, encode_question(engine, context.n_tokens(), question, options.raw));
  out.n_question_tokens = static_cast<int64_t>(tokens.size());
  constexpr size_t kPiece = 64;  // tokens between two looks at Ctrl-C
  for (size_t at = 0; at < tokens.size(); at += kPiece) {
    const size_t n = std::min(kPiece, tokens.size() - at);
    VESTIGE_TRY(context.feed(std::span(tokens).subspan(at, n), nullptr));
    if (interrupted()) return cancelled("interrupted");
  }
  VESTIGE_TRY(context.logits().status());
  out.first_token_s = load_s + seconds_since(start);

  GenerateOptions generation;
  generation.n_tokens = options.n_tokens;
  generation.on_text = [](std::string_view) { return !interrupted(); };
  if (!options.raw) generation.stop = {"\n"};
  VESTIGE_ASSIGN(out.result, generate(engine, context, generation));
  if (interrupted()) return cancelled("interrupted");
  const size_t at = options.raw ? 0 : out.result.text.find_first_not_of(" \t");
  out.text = at == std::string::npos ? "" : out.result.text.substr(at);
  return out;
}

Json answer_json(const std::string& question, const Answer& a, size_t n_layers) {
  return {{"question", question},
          {"answer", a.text},
          {"question_tokens", a.n_question_tokens},
          {"tokens", a.result.tokens},
          {"finish_reason", a.result.finish_reason},
          {"load_s", a.load_s},
          {"first_token_s", a.first_token_s},
          {"decode_s", a.result.decode_s},
          {"stats", stats_json(a.result, n_layers)}};
}

}  // namespace vestige::tools
