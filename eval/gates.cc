#include "eval/gates.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace vestige::eval {

namespace {

constexpr size_t kFedTokens = 8;  // of the segments, for the identity gate

std::vector<int32_t> first_fed(const Trial& trial) {
  std::vector<int32_t> tokens;
  for (const Segment& segment : trial.segments) {
    tokens.insert(tokens.end(), segment.prompt.begin(), segment.prompt.end());
    tokens.insert(tokens.end(), segment.answer.begin(), segment.answer.end());
  }
  tokens.resize(std::min(tokens.size(), kFedTokens));
  return tokens;
}

/// The logits after each token, one after the other.
Result<std::vector<float>> fed_logits(Context& context, std::span<const int32_t> tokens) {
  std::vector<float> out;
  for (const int32_t token : tokens) {
    VESTIGE_TRY(context.feed({&token, 1}, nullptr));
    VESTIGE_ASSIGN(const std::span<const float> logits, context.logits());
    out.insert(out.end(), logits.begin(), logits.end());
  }
  return out;
}

std::string text(const char* format, long long a, long long b, long long c) {
  char out[160];
  std::snprintf(out, sizeof out, format, a, b, c);
  return out;
}

/// One step of one layer by itself: the model's records add the layers up.
Result<StepRecord> attend_once(LayerCache& cache, Stream& stream) {
  const int64_t h_q = cache.h_q(), d_row = cache.layout().d_row(), d_content = cache.layout().d_content;
  std::vector<float> q(static_cast<size_t>(h_q * d_row)), out(static_cast<size_t>(h_q * d_content));
  Draw draw(static_cast<uint64_t>(d_row));
  for (float& x : q) x = static_cast<float>(draw.below(2001) - 1000) / 1000;
  StepRecord record;
  VESTIGE_TRY(cache.attend(ConstTensorView(q.data(), DType::kF32, {1, h_q, d_row}),
                           TensorView(out.data(), DType::kF32, {1, h_q, d_content}), {}, &record, stream));
  return record;
}

}  // namespace

Result<GateOutcome> identity_gate(Engine& engine, const Context& base, const Trial& trial, const Arm& arm) {
  GateOutcome gate{.gate = "identity", .subject = arm.name};
  Arm full, whole = arm;
  full.policy.name = "full";
  full.policy.ratio = 1;
  full.policy.block_rows = arm.policy.block_rows;
  whole.policy.ratio = 1;
  const std::vector<int32_t> tokens = first_fed(trial);
  VESTIGE_ASSIGN(const auto exact, fork_arm(engine, base, trial, full, {}));
  VESTIGE_ASSIGN(const std::vector<float> want, fed_logits(*exact, tokens));
  VESTIGE_ASSIGN(const auto context, fork_arm(engine, base, trial, whole, {}));
  VESTIGE_ASSIGN(const std::vector<float> got, fed_logits(*context, tokens));
  size_t n_different = 0;
  for (size_t i = 0; i < want.size(); ++i) n_different += std::memcmp(&want[i], &got[i], sizeof(float)) == 0 ? 0 : 1;
  gate.passed = n_different == 0 && !want.empty();
  gate.detail =
      text("%lld of %lld logits after %lld tokens differ from full at ratio 1", static_cast<long long>(n_different),
           static_cast<long long>(want.size()), static_cast<long long>(tokens.size()));
  return gate;
}

Result<GateOutcome> fired_gate(Engine& engine, const Context& base, const Trial& trial, const Arm& arm) {
  GateOutcome gate{.gate = "fired", .subject = arm.name, .passed = true};
  VESTIGE_ASSIGN(const auto context, fork_arm(engine, base, trial, arm, {}));
  for (size_t i = 0; i < context->caches().size(); ++i) {
    LayerCache& cache = *context->caches()[i];
    VESTIGE_ASSIGN(const StepRecord r, attend_once(cache, engine.stream()));
    const int64_t exact_bytes = (r.n_kept + r.n_tail + r.n_recalled) * cache.layout().row_bytes();
    const bool scanned = r.n_scanned[0] > 0 || r.read_bytes > exact_bytes;
    const bool has_index = cache.policy().create_index(cache.layout()) != nullptr;
    if (cache.n_kept() >= cache.n_closed()) {
      gate.passed = false;
      gate.detail = text("attention layer %lld keeps %lld of %lld closed rows: nothing is compressed",
                         static_cast<long long>(i), cache.n_kept(), cache.n_closed());
    } else if (has_index && !scanned) {
      gate.passed = false;
      gate.detail = text("the index of attention layer %lld was not read (%lld bytes, %lld in rows)",
                         static_cast<long long>(i), r.read_bytes, exact_bytes);
    }
    if (!gate.passed) return gate;
    gate.detail = text("last layer: %lld of %lld closed rows kept, %lld recalled by a random query", cache.n_kept(),
                       cache.n_closed(), r.n_recalled);
  }
  return gate;
}

Result<GateOutcome> leakage_gate(Engine& engine, const Context& base, const Trial& trial, const StopFn& stop) {
  GateOutcome gate{.gate = "leakage"};
  Arm destroyed;
  const int64_t n_closed = base.caches()[0]->n_closed();
  destroyed.policy.name = "streaming";
  destroyed.policy.block_rows = base.caches()[0]->policy().config().block_rows;
  destroyed.policy.ratio = static_cast<double>(std::max<int64_t>(n_closed, 1));
  VESTIGE_ASSIGN(const auto context, fork_arm(engine, base, trial, destroyed, {}));
  VESTIGE_ASSIGN(const Outcome outcome, score_trial(engine, *context, trial, stop));
  gate.passed = !outcome.exact;
  char detail[160];
  std::snprintf(detail, sizeof detail, "answer at %.2f nats%s with %lld of %lld closed rows left", outcome.nats,
                outcome.exact ? ", still right" : ", wrong", static_cast<long long>(context->caches()[0]->n_kept()),
                static_cast<long long>(n_closed));
  gate.detail = detail;
  return gate;
}

}  // namespace vestige::eval
