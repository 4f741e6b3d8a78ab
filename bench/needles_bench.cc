// The paper's needle protocol (arXiv:2609.03949v1; ../shared/reference/vestigekv.md, 13.1) through the engine:
//   needles_bench MODEL_DIR FILLER [LENGTH] [TRIALS] [N_THREADS]
// A sentence with a five-digit code stands in [0.1, 0.8) of LENGTH tokens of filler. All of it is read and compressed
// before the question. Score: summed negative log-likelihood of the code's tokens, teacher-forced, in nats. Intact:
// less than 1 nat above full attention over the same rows; a trial in which full attention itself is not right does not
// count.

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "bench/best_of.h"
#include "engine/random.h"
#include "vestige/engine.h"

namespace vestige {
namespace {

constexpr const char* kCities[] = {"Reykjavik", "Montevideo", "Vientiane", "Gaborone", "Ljubljana"};
constexpr const char* kArms[] = {"full", "vestige", "streaming", "random"};
constexpr size_t kArmCount = std::size(kArms);

struct Trial {
  std::vector<int32_t> prefix, question, code;
};

struct Score {
  double nll = 0;
  bool exact = true;
};

uint32_t below(Pcg32& random, int64_t n) { return static_cast<uint32_t>(random.uniform() * static_cast<double>(n)); }

Result<Trial> make_trial(const Tokenizer& tokenizer, std::span<const int32_t> filler, int64_t length, int i) {
  Pcg32 random(static_cast<uint64_t>(i));
  Trial trial;
  const std::string city = kCities[i % 5], code = std::to_string(10000 + below(random, 89999));
  std::vector<int32_t> needle;
  VESTIGE_TRY(tokenizer.encode("\nThe secret passcode for " + city + " is " + code + ".\n", &needle));
  VESTIGE_TRY(tokenizer.encode("\nQuestion: what is the secret passcode for " + city + "?\nAnswer:", &trial.question));
  VESTIGE_TRY(tokenizer.encode(" " + code, &trial.code));
  const auto n_filler = static_cast<int64_t>(filler.size());
  if (n_filler < length)
    return invalid_argument("the filler has %lld tokens, want at least %lld", static_cast<long long>(n_filler),
                            static_cast<long long>(length));
  const auto text = filler.subspan(below(random, n_filler - length + 1), static_cast<size_t>(length));
  const auto p = static_cast<ptrdiff_t>(length / 10 + below(random, length * 7 / 10));
  trial.prefix.assign(text.begin(), text.begin() + p);
  trial.prefix.insert(trial.prefix.end(), needle.begin(), needle.end());
  trial.prefix.insert(trial.prefix.end(), text.begin() + p, text.end());
  trial.prefix.resize(static_cast<size_t>(length));
  return trial;
}

Result<Score> score(Context& context, const Trial& trial, StepRecord* record) {
  Score out;
  VESTIGE_TRY(context.feed(trial.question, nullptr));
  for (const int32_t token : trial.code) {
    VESTIGE_ASSIGN(const std::span<const float> logits, context.logits());
    const auto at = static_cast<size_t>(token);
    double sum = 0, most = -INFINITY;
    for (const float x : logits) most = std::max(most, static_cast<double>(x));
    for (const float x : logits) sum += std::exp(static_cast<double>(x) - most);
    out.nll += std::log(sum) + most - static_cast<double>(logits[at]);
    out.exact = out.exact && static_cast<double>(logits[at]) == most;
    VESTIGE_TRY(context.feed({&token, 1}, record));
  }
  return out;
}

struct Totals {
  int n_exact = 0, n_intact = 0;
  double delta = 0;
  StepRecord record;
};

/// One trial under every policy, over the same rows: read once, then from a file.
Status run_trial(Engine& engine, const Trial& trial, std::vector<Totals>* totals, int* n_counted) {
  const std::string path = "/tmp/vestige_needles_" + std::to_string(getpid()) + ".vctx";
  VESTIGE_ASSIGN(const auto context, Context::create(engine, PolicyConfig()));
  VESTIGE_TRY(context->read(trial.prefix, {}));
  VESTIGE_TRY(context->finish_reading({}));
  VESTIGE_TRY(context->save(path, {}));
  VESTIGE_ASSIGN(const auto file, ContextFile::open(path));
  unlink(path.c_str());
  double full_nll = 0;
  for (size_t arm = 0; arm < kArmCount; ++arm) {
    Totals& total = (*totals)[arm];
    LoadOptions options;
    PolicyConfig policy;
    policy.name = kArms[arm];
    if (policy.name != file->policy().name) options.policy = policy;
    VESTIGE_ASSIGN(const auto loaded, Context::load(engine, file, options));
    VESTIGE_ASSIGN(const Score s, score(*loaded, trial, &total.record));
    if (arm == 0) {
      full_nll = s.nll;
      if (!s.exact) return {};
      ++*n_counted;
    }
    total.n_exact += s.exact ? 1 : 0;
    total.n_intact += s.nll - full_nll < 1 ? 1 : 0;
    total.delta += s.nll - full_nll;
  }
  return {};
}

void print(const std::vector<Totals>& totals, int n_counted, int n_trials) {
  std::printf("full attention solves %d of %d trials; of these:\n", n_counted, n_trials);
  for (size_t arm = 0; arm < kArmCount; ++arm) {
    const Totals& t = totals[arm];
    const auto steps = static_cast<double>(std::max<int64_t>(t.record.n_steps, 1));
    std::printf(
        "  %-10s intact %2d, exact %2d, mean delta %+.3f nats; %.0f kept + %.0f tail + %.1f recalled of %.0f archived "
        "rows\n",
        kArms[arm], t.n_intact, t.n_exact, t.delta / std::max(n_counted, 1),
        static_cast<double>(t.record.n_kept) / steps, static_cast<double>(t.record.n_tail) / steps,
        static_cast<double>(t.record.n_recalled) / steps, static_cast<double>(t.record.n_archived) / steps);
  }
}

Status run(int argc, char** argv) {
  if (argc < 3) return invalid_argument("usage: needles_bench MODEL_DIR FILLER [LENGTH] [TRIALS] [N_THREADS]");
  const int64_t length = argc > 3 ? std::atoll(argv[3]) : 8192;
  const int n_trials = argc > 4 ? std::atoi(argv[4]) : 24;
  EngineOptions options;
  options.model_dir = argv[1];
  options.stream.n_threads = argc > 5 ? std::atoi(argv[5]) : 0;
  VESTIGE_ASSIGN(const auto engine, Engine::create(options));
  std::ifstream in(argv[2], std::ios::binary);
  std::vector<int32_t> filler;
  VESTIGE_TRY(engine->tokenizer().encode(std::string{std::istreambuf_iterator<char>(in), {}}, &filler));
  const auto start = Clock::now();
  std::vector<Totals> totals(kArmCount);
  int n_counted = 0;
  for (int i = 0; i < n_trials; ++i) {
    VESTIGE_ASSIGN(const Trial trial, make_trial(engine->tokenizer(), filler, length, i));
    VESTIGE_TRY(run_trial(*engine, trial, &totals, &n_counted));
  }
  std::printf("needles: model %s, L = %lld tokens, ratio 32, %d trials, %.0f s\n", argv[1],
              static_cast<long long>(length), n_trials, seconds_since(start));
  print(totals, n_counted, n_trials);
  return {};
}

}  // namespace
}  // namespace vestige

int main(int argc, char** argv) {
  const vestige::Status status = vestige::run(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "needles_bench: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
